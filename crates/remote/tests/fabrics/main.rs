//! One suite over every fabric, and what becomes of operations when a process of those over
//! networks is killed or stopped.

mod beds;
mod failures;
mod operations;
mod trees;
