//! Reconcile engine, watches, configuration, telemetry, health and shutdown.
