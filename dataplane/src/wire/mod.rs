//! Wire formats: views over bytes, checked once.
