//! arkworks and halo2curves behind lines of JSON, as peer_python.py: {"load": threads}, then {"calls": how many in a row}.

mod arkworks;
mod halo2;

use serde_json::{json, Value};
use std::io::{self, BufRead, Write};
use std::time::Instant;

pub type Failure = Box<dyn std::error::Error>;
pub type Limbs = [u64; 4];

/// Limbs from low to high; points and scalars of `points_montgomery` and so on are such in Montgomery form.
pub trait Library {
    fn load(&mut self, points: &[[Limbs; 2]], threads: usize) -> Result<(), Failure>;
    fn scalars(&mut self, plain: Vec<Limbs>, montgomery: Vec<Limbs>);
    /// The sum over all points; kept until `affine` asks for it.
    fn run(&mut self);
    /// Coordinates of the last sum as canonical limbs.
    fn affine(&self) -> [Limbs; 2];
}

fn read(request: &Value, name: &str) -> Result<Vec<Limbs>, Failure> {
    let path = request["files"][name].as_str().ok_or("no such file in the request")?;
    let data = std::fs::read(path)?;
    Ok(data
        .chunks_exact(32)
        .map(|bytes| std::array::from_fn(|i| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap())))
        .collect())
}

fn cpu_ms() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

fn hexadecimal(value: Limbs) -> String {
    format!("0x{:016x}{:016x}{:016x}{:016x}", value[3], value[2], value[1], value[0])
}

fn answer(library: &mut dyn Library, line: &str) -> Result<Value, Failure> {
    let request: Value = serde_json::from_str(line)?;
    if let Some(threads) = request["load"].as_u64() {
        let flat = read(&request, "points_montgomery")?;
        let points: Vec<[Limbs; 2]> = flat.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        if rayon::current_num_threads() != threads as usize {
            return Err("the pool has another number of threads".into()); // RAYON_NUM_THREADS decides
        }
        let start = Instant::now();
        library.load(&points, threads as usize)?;
        return Ok(json!({"wall_ms": start.elapsed().as_secs_f64() * 1e3}));
    }
    let calls = request["calls"].as_u64().unwrap_or(1).max(1);
    library.scalars(read(&request, "scalars")?, read(&request, "scalars_montgomery")?);
    let (start, cpu) = (Instant::now(), cpu_ms());
    for _ in 0..calls {
        library.run();
    }
    let wall_ms = start.elapsed().as_secs_f64() * 1e3 / calls as f64;
    let cpu_ms = (cpu_ms() - cpu) / calls as f64;
    let [x, y] = library.affine().map(hexadecimal);
    Ok(json!({"wall_ms": wall_ms, "cpu_ms": cpu_ms, "x": x, "y": y}))
}

fn main() {
    let mut library: Box<dyn Library> = match std::env::args().nth(1).as_deref() {
        Some("arkworks") => Box::new(arkworks::Arkworks::default()),
        Some("halo2curves") => Box::new(halo2::Halo2::default()),
        _ => panic!("name arkworks or halo2curves"),
    };
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let said = answer(library.as_mut(), &line).unwrap_or_else(|error| json!({"error": error.to_string()}));
        println!("{said}");
        io::stdout().flush().unwrap();
    }
}
