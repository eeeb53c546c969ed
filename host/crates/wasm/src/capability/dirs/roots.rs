//! Which granted directory each handle of a guest leads into, so that it can be said which of
//! them a call made use of.

/// Open handles, each with the place of its directory among the rights of the tool.
#[derive(Debug, Default)]
pub(super) struct Roots(Vec<(u32, usize)>);

impl Roots {
    /// A handle leads into a directory.
    pub(super) fn add(&mut self, handle: u32, directory: usize) {
        self.remove(handle);
        self.0.push((handle, directory));
    }

    /// What was opened below a handle leads where that does.
    pub(super) fn add_below(&mut self, parent: u32, handle: u32) {
        if let Some(directory) = self.of(parent) {
            self.add(handle, directory);
        }
    }

    /// The number will stand for something else.
    pub(super) fn remove(&mut self, handle: u32) {
        self.0.retain(|(known, _)| *known != handle);
    }

    /// The directory that a handle leads into.
    pub(super) fn of(&self, handle: u32) -> Option<usize> {
        self.0.iter().find(|(known, _)| *known == handle).map(|(_, directory)| *directory)
    }
}
