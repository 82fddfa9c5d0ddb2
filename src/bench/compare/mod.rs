//! `xoff bench compare`: whether one thing is slower than another.
