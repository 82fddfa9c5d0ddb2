//! Errors of building a [`super::Fib`].

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{GROUPS_MAX, MEMBERS_MAX, NEXT_HOPS_MAX, ROUTES_MAX, WEIGHT_SUM_MAX};

/// Reason why routes cannot form a [`super::Fib`], with the first offending prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FibError {
    /// Two routes have the same prefix.
    DuplicatePrefix(IpNet),
    /// A route has an empty list of next hops.
    NoNextHop(IpNet),
    /// A next hop has weight 0.
    ZeroWeight(IpNet, IpAddr),
    /// The sum of the weights in lowest terms exceeds [`WEIGHT_SUM_MAX`].
    WeightSum(IpNet, u64),
    /// An IPv6 prefix has an IPv4 next hop.
    Family(IpNet, IpAddr),
    /// More than [`ROUTES_MAX`] routes, or a table that is too large for the trie.
    TooManyRoutes(IpNet),
    /// More than [`NEXT_HOPS_MAX`] next hops.
    TooManyNextHops(IpNet),
    /// A route has more than [`MEMBERS_MAX`] next hops.
    TooManyMembers(IpNet),
    /// More than [`GROUPS_MAX`] sets of next hops.
    TooManyGroups(IpNet),
}

impl fmt::Display for FibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FibError::DuplicatePrefix(prefix) => write!(f, "{prefix}: there are two routes to it"),
            FibError::NoNextHop(prefix) => write!(f, "{prefix}: a route via no next hop"),
            FibError::ZeroWeight(prefix, address) => write!(f, "{prefix}: next hop {address} has weight 0"),
            FibError::WeightSum(prefix, sum) => write!(
                f,
                "{prefix}: the weights of its next hops, in lowest terms, add up to {sum}; at most {WEIGHT_SUM_MAX}"
            ),
            FibError::Family(prefix, address) => {
                write!(
                    f,
                    "{prefix}: an IPv6 route cannot lead to the IPv4 next hop {address}"
                )
            }
            FibError::TooManyRoutes(prefix) => write!(f, "{prefix}: more than {ROUTES_MAX} routes"),
            FibError::TooManyNextHops(prefix) => write!(f, "{prefix}: more than {NEXT_HOPS_MAX} next hops"),
            FibError::TooManyMembers(prefix) => {
                write!(f, "{prefix}: a route via more than {MEMBERS_MAX} next hops")
            }
            FibError::TooManyGroups(prefix) => {
                write!(f, "{prefix}: more than {GROUPS_MAX} sets of next hops")
            }
        }
    }
}

impl std::error::Error for FibError {}
