//! Ages and amounts, as `kubectl` and the server write them.

use chandlery_kinds::{age, of, quantity::canonical};

#[test]
fn an_age_has_two_units_where_the_second_says_something() {
    for (seconds, told) in [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (3 * 3600 + 120, "3h2m"),
        (8 * 3600 + 120, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (2 * 86_400 + 3600, "2d1h"),
        (8 * 86_400 + 3600, "8d"),
        (729 * 86_400, "729d"),
        (730 * 86_400, "2y"),
        (731 * 86_400, "2y1d"),
        (8 * 365 * 86_400 + 86_400, "8y"),
    ] {
        assert_eq!(age(seconds), told, "{seconds} seconds");
    }
}

#[test]
fn an_amount_is_written_with_the_largest_suffix_that_fits() {
    // Each is what a real server stored of it.
    for (sent, stored) in [
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        ("100000000000", "100G"),
        ("1000k", "1M"),
        ("2000Ki", "2000Ki"),
        ("1024", "1024"),
        ("0m", "0"),
        ("1.0", "1"),
        ("1e6", "1e6"),
        ("1000000000000000000", "1E"),
        ("nonsense", "nonsense"),
    ] {
        assert_eq!(canonical(sent), stored, "{sent}");
    }
}

#[test]
fn every_kind_of_the_server_has_an_answer() {
    for (group, kind) in [
        ("", "Event"),
        ("", "Node"),
        ("apps", "ControllerRevision"),
        ("apiregistration.k8s.io", "APIService"),
        ("storage.k8s.io", "StorageClass"),
        ("resource.k8s.io", "ResourceSlice"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ] {
        let known = of(group, kind);
        assert!(
            known.is_some_and(|known| known.knows_only_structure()),
            "{kind} is known by its structure"
        );
    }
    assert!(of("apps", "Deployment").is_some_and(|known| !known.knows_only_structure()));
    assert!(of("apps", "Kite").is_none(), "no such kind is known");
}
