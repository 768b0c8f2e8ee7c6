//! How much memory this process may use: the lowest of the limits of its control groups and what the machine has.
//!
//! Both versions of control groups are read, each group up the tree. Inside a container the path that the process is
//! told may not exist under the mount; the mount itself is the container's group then.

use std::fs;
use std::path::Path;

/// A quarter is for messages; the rest is for what the process has besides, and for copies.
const SHARE: u64 = 4;
const MIB: u64 = 1024 * 1024;
/// Where nothing says how much there is.
const UNKNOWN_MIB: usize = 256;

/// What messages may take when nothing is configured, within `least..=most`, in MiB.
pub(super) fn share_mib(least: usize, most: usize) -> usize {
    let limit = limit(Path::new("/"));
    let share = limit.map(|bytes| usize::try_from(bytes / SHARE / MIB).unwrap_or(most));
    share.unwrap_or(UNKNOWN_MIB).clamp(least, most)
}

/// In bytes; files are looked for under `root`.
fn limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.is_empty() {
            let mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
            return lowest(root, &mounts, path, "memory.max");
        }
        let counts_memory = controllers.split(',').any(|name| name == "memory");
        counts_memory.then(|| lowest(root, &["sys/fs/cgroup/memory"], path, "memory.limit_in_bytes"))?
    });
    of_groups.chain(of_machine(root)).min()
}

fn lowest(root: &Path, mounts: &[&str], group: &str, file: &str) -> Option<u64> {
    let group = Path::new(group.trim_start_matches('/'));
    let paths = mounts
        .iter()
        .flat_map(|mount| group.ancestors().map(move |up| root.join(mount).join(up).join(file)));
    // `max` is no number: no limit.
    paths
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
        .min()
}

fn of_machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], limit_mib: Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(limit(root.path()), limit_mib.map(|mib| mib * MIB), "{files:?}");
    }

    #[test]
    fn the_lowest_limit_up_the_tree_counts() {
        let machine = ("proc/meminfo", "MemTotal:       2097152 kB\nMemFree: 1 kB\n");
        check(&[], None);
        check(&[machine], Some(2048));
        let second = ("proc/self/cgroup", "0::/system.slice/redrive.service\n");
        check(
            &[
                machine,
                second,
                ("sys/fs/cgroup/system.slice/redrive.service/memory.max", "max\n"),
                ("sys/fs/cgroup/system.slice/memory.max", "1073741824\n"),
            ],
            Some(1024),
        );
        let both = ("proc/self/cgroup", "4:cpu,memory:/docker/abc\n2:cpuset:/x\n0::/\n");
        check(
            &[
                machine,
                both,
                ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "536870912\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
            Some(512),
        );
        // In a container the mount is its group.
        check(
            &[
                machine,
                both,
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
            ],
            Some(256),
        );
    }

    #[test]
    fn what_is_found_stays_within_what_can_be_configured() {
        assert_eq!(share_mib(7, 7), 7);
    }
}
