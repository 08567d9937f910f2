//! The memory that this process's control group may use.

use std::path::Path;

/// Bytes that the tightest of this process's control groups allows; `None` if none limits it.
///
/// Reads cgroup v2 (`memory.max`) and v1 (`memory.limit_in_bytes`), the group itself and those above it.
pub fn memory_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_of(&groups, Path::new("/sys/fs/cgroup"))
}

/// `groups` is the text of `/proc/self/cgroup`, `root` where the groups are mounted.
fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let limit_of_line = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        if number == "0" && controllers.is_empty() {
            tightest(root, group, "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            tightest(&root.join("memory"), group, "memory.limit_in_bytes")
        } else {
            None
        }
    };
    groups.lines().filter_map(limit_of_line).min()
}

/// The least limit of `group` and the groups above it. In a container the group's path may lead nowhere; what is
/// mounted at the root is then the container's own group.
fn tightest(root: &Path, group: &str, file: &str) -> Option<u64> {
    let path = root.join(group.trim_start_matches('/'));
    path.ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(|folder| std::fs::read_to_string(folder.join(file)).ok())
        .filter_map(|text| text.trim().parse::<u64>().ok())
        // v1 writes the largest page count for no limit.
        .filter(|limit| *limit < 1 << 62)
        .min()
}

#[cfg(test)]
mod tests {
    use super::limit_of;

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("scrubjay-cgroup-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            std::fs::write(path, text).expect("writable");
        };
        write("memory.max", "max\n");
        write("a/memory.max", "1000\n");
        write("a/b/memory.max", "2000\n");
        write("memory/c/memory.limit_in_bytes", "500\n");
        write("memory/d/memory.limit_in_bytes", "9223372036854771712\n");
        let check = |groups: &str, limit: Option<u64>| assert_eq!(limit_of(groups, &root), limit, "{groups}");
        check("0::/\n", None);
        check("0::/a\n", Some(1000));
        check("0::/a/b\n", Some(1000));
        check("0::/a/gone\n", Some(1000));
        check("0::/../..\n", None);
        check("12:cpu:/\n5:cpuset,memory:/c\n0::/a/b\n", Some(500));
        check("5:memory:/d\n", None);
        check("", None);
        check("nonsense", None);
        std::fs::remove_dir_all(&root).expect("ours");
    }
}
