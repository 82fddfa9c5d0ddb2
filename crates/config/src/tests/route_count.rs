//! The limit of routes is checked before the routes are resolved.

use crate::parse;
use crate::resolve::check_route_count;

#[test]
fn routes_and_interface_addresses_are_counted_before_they_are_resolved() {
    let text = r#"{
        "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}},
        "STATIC_ROUTE": {"10.1.0.0/16": {"nexthop": "10.0.0.1"}, "10.2.0.0/16": {"nexthop": "10.0.0.1"}}
    }"#;
    let db = parse(text, "routes").expect("valid tables");
    assert!(check_route_count(&db, 3).is_ok(), "two routes and one address");
    let found = check_route_count(&db, 2).expect_err("too many");
    let [problem] = found.values.as_slice() else {
        panic!("one error")
    };
    assert_eq!(problem.table, "STATIC_ROUTE");
    assert!(
        problem.why.contains("need 3 routes, and at most 2"),
        "{}",
        problem.why
    );
}
