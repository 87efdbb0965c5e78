//! What the kernel says of the device that a file is on.

/// What the kernel takes in one advice where it does not say: its own default for a device.
const ADVICE_MAX_DEFAULT: u64 = 128 << 10;

/// Whether it has something that rotates. What is no block device, such as a file system over a
/// network, has no one arm to be kept in one place.
pub(super) fn rotates(device: u64) -> bool {
    queue_says(device, "rotational").is_some_and(|says| says == 1)
}

/// How many bytes `POSIX_FADV_WILLNEED` takes at once: what comes behind its largest request or its
/// read-ahead, whichever is more, it leaves out silently.
pub(super) fn advice_max(device: u64) -> u64 {
    let request = queue_says(device, "max_sectors_kb");
    let most = read_ahead_kib(device).max(request);
    most.map_or(ADVICE_MAX_DEFAULT, |kib| (kib << 10).max(rustix::param::page_size() as u64))
}

/// The kernel's read-ahead, which also what is no block device has.
fn read_ahead_kib(device: u64) -> Option<u64> {
    let numbers = numbers(device);
    number_in(&format!("/sys/class/bdi/{numbers}/read_ahead_kb"))
        .or_else(|| queue_says(device, "read_ahead_kb"))
}

/// A number of a block device's queue. A partition has the queue of its disk.
fn queue_says(device: u64, name: &str) -> Option<u64> {
    let numbers = numbers(device);
    let path = |queue| format!("/sys/dev/block/{numbers}/{queue}/{name}");
    ["queue", "../queue"].into_iter().find_map(|queue| number_in(&path(queue)))
}

fn numbers(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

fn number_in(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_no_device_is_its_default() {
        let none = rustix::fs::makedev(4095, 1_048_575);
        assert_eq!((rotates(none), advice_max(none)), (false, ADVICE_MAX_DEFAULT));
    }

    #[test]
    fn an_advice_is_as_large_as_the_read_ahead_or_a_request() {
        let here = rustix::fs::stat(".").unwrap().st_dev;
        let most = advice_max(here);
        let said = [read_ahead_kib(here), queue_says(here, "max_sectors_kb")];
        let said = said.into_iter().flatten().max().map_or(ADVICE_MAX_DEFAULT, |kib| kib << 10);
        assert_eq!(most, said.max(rustix::param::page_size() as u64));
    }
}
