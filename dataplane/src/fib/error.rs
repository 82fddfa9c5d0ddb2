//! Errors that occur when a [`super::Fib`] is built.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{GROUPS_MAX, MEMBERS_MAX, NEXT_HOPS_MAX, ROUTES_MAX, WEIGHT_SUM_MAX};

/// Reason for which routes cannot form a [`super::Fib`]. Each variant names a violated rule. Its first value
/// is the prefix of the first route that violates this rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FibError {
    /// Two routes have the same prefix.
    DuplicatePrefix(IpNet),
    /// The list of next hops of a route is empty.
    NoNextHop(IpNet),
    /// A next hop has weight 0. The second value is the address of the next hop.
    ZeroWeight(IpNet, IpAddr),
    /// The sum of a route's weights in lowest terms, which is the second value, exceeds [`WEIGHT_SUM_MAX`].
    WeightSum(IpNet, u64),
    /// An IPv6 prefix has an IPv4 next hop, whose address is the second value.
    Family(IpNet, IpAddr),
    /// More than [`ROUTES_MAX`] routes exist, or the table is too large for the look-up structure.
    TooManyRoutes(IpNet),
    /// More than [`NEXT_HOPS_MAX`] different next hops exist.
    TooManyNextHops(IpNet),
    /// A route has more than [`MEMBERS_MAX`] next hops.
    TooManyMembers(IpNet),
    /// More than [`GROUPS_MAX`] different sets of next hops exist.
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
