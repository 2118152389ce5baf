//! Controllers that need only the API server.
