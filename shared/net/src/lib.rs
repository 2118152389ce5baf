//! Pure domain rules used by more than one Causeway binary.
