// Fork-join by rayon: the graph cut into levels, each forked in halves by `join` down to a grain, and a join behind each.
// Prints what the C++ peers print: see edges.hpp.
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

const GRAIN: usize = 64;
const PEER: &str = "fork-join by level (rayon)";

struct Edges {
    tasks: usize,
    start: Vec<i64>,
    preds: Vec<i64>,
}

fn words(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn load(path: &str) -> Edges {
    let bytes = std::fs::read(path).expect("the edge file");
    assert!(bytes.starts_with(b"whetdag1"), "not an edge file");
    let all = words(&bytes[8..]);
    let tasks = all[0] as usize;
    Edges { tasks, start: all[2..tasks + 3].to_vec(), preds: all[tasks + 3..].to_vec() }
}

struct Levels {
    order: Vec<usize>,
    begins: Vec<usize>,
}

fn cut(e: &Edges) -> Levels {
    let mut level = vec![0usize; e.tasks];
    let mut deepest = 0;
    for t in 0..e.tasks {
        for &before in &e.preds[e.start[t] as usize..e.start[t + 1] as usize] {
            level[t] = level[t].max(level[before as usize] + 1);
        }
        deepest = deepest.max(level[t] + 1);
    }
    let mut begins = vec![0usize; deepest + 1];
    for &of in &level {
        begins[of + 1] += 1;
    }
    for at in 1..begins.len() {
        begins[at] += begins[at - 1];
    }
    let mut fill = begins.clone();
    let mut order = vec![0usize; e.tasks];
    for t in 0..e.tasks {
        order[fill[level[t]]] = t;
        fill[level[t]] += 1;
    }
    Levels { order, begins }
}

// Counts the call where only its own task writes, so that a lost or doubled task shows.
fn fork(order: &[usize], ran: &[AtomicU8]) {
    if order.len() <= GRAIN {
        for &task in order {
            let count = &ran[task];
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        return;
    }
    let (left, right) = order.split_at(order.len() / 2);
    rayon::join(|| fork(left, ran), || fork(right, ran));
}

fn run(levels: &Levels, ran: &[AtomicU8]) {
    for pair in levels.begins.windows(2) {
        fork(&levels.order[pair[0]..pair[1]], ran);
    }
}

fn cpu_ns() -> f64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    const PROCESS: i32 = 2; // CLOCK_PROCESS_CPUTIME_ID on Linux
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(PROCESS, &mut now) };
    now.seconds as f64 * 1e9 + now.nanoseconds as f64
}

fn measure(what: &str, e: &Edges, threads: usize, repeats: usize, mut once: impl FnMut(&[AtomicU8])) {
    let mut times = Vec::new();
    let mut least_cpu = f64::MAX;
    for _ in 0..repeats {
        let ran: Vec<AtomicU8> = (0..e.tasks).map(|_| AtomicU8::new(0)).collect();
        let cpu = cpu_ns();
        let begun = Instant::now();
        once(&ran);
        times.push(begun.elapsed().as_nanos() as f64 / e.tasks as f64);
        least_cpu = least_cpu.min((cpu_ns() - cpu) / e.tasks as f64);
        assert!(ran.iter().all(|count| count.load(Ordering::Relaxed) == 1), "a task did not run exactly once");
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{{\"peer\": \"{PEER}\", \"what\": \"{what}\", \"dependencies\": \"built\", \"threads\": {threads}, \
         \"ns_per_task\": {:.2}, \"best_ns_per_task\": {:.2}, \"cpu_ns_per_task\": {:.2}}}",
        times[times.len() / 2],
        times[0],
        least_cpu
    );
}

fn main() {
    let given: Vec<String> = std::env::args().collect();
    let (threads, repeats) = (given[2].parse().unwrap(), given[3].parse().unwrap());
    let e = load(&given[1]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        measure("fresh", &e, threads, repeats, |ran| run(&cut(&e), ran));
        let levels = cut(&e);
        measure("replay", &e, threads, repeats, |ran| run(&levels, ran));
    });
}
