//! What is held against others: runs whose result somebody else has published.

pub mod oracle;
pub mod probe;
