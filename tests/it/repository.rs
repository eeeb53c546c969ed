//! What holds of the repository itself: its layers, its bounds, its README.

mod bounds;
mod fuzzing;
mod layering;
mod names;
mod readme;
mod testing;
