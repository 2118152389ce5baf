//! What both halves of a node do with their UplinkStates: watch, lifecycle, publish.
