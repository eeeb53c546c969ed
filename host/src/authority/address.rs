//! stub
/// How far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// a
    Public,
    /// b
    Private,
    /// c
    Named,
}
