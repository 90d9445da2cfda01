//! Sums points by scalars: `msm POINTS SCALARS` reads 64 bytes per point (x, then y) and 32 per scalar, all little-endian,
//! and prints the coordinates of the sum.
//!
//!     make lib
//!     rustc -O examples/rust/msm.rs -L build/lib -C link-arg=-Wl,-rpath,build/lib -o msm
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

type Progress = Option<extern "C" fn(f64, *mut c_void) -> c_int>;

#[link(name = "whet_msm")]
extern "C" {
    fn whet_msm_error() -> *const c_char;
    fn whet_msm_new(backend: *const c_char, threads: c_uint, engine: *mut u64) -> c_int;
    fn whet_msm_free(engine: u64);
    fn whet_msm_prepare(engine: u64, points: *const u8, n: usize, how: c_uint) -> c_int;
    fn whet_msm_run(
        engine: u64,
        scalars: *const u8,
        n: usize,
        offset: usize,
        progress: Progress,
        user: *mut c_void,
        sum: *mut u8,
    ) -> c_int;
}

/// Points that are ready to be summed; gives them back when it goes.
struct Engine(u64);

fn checked(status: c_int) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: never null, and valid until this thread's next call.
    Err(unsafe { CStr::from_ptr(whet_msm_error()) }.to_string_lossy().into_owned())
}

impl Engine {
    fn new(points: &[u8]) -> Result<Self, String> {
        let mut engine = Engine(0);
        // SAFETY: the addresses are of live values, and the length is that of the slice.
        checked(unsafe { whet_msm_new(std::ptr::null(), 0, &mut engine.0) })?;
        checked(unsafe { whet_msm_prepare(engine.0, points.as_ptr(), points.len() / 64, 0) })?;
        Ok(engine)
    }

    fn sum(&self, scalars: &[u8]) -> Result<[u8; 64], String> {
        let mut sum = [0u8; 64];
        let none = std::ptr::null_mut();
        // SAFETY: as above; no progress function is given.
        checked(unsafe { whet_msm_run(self.0, scalars.as_ptr(), scalars.len() / 32, 0, None, none, sum.as_mut_ptr()) })?;
        Ok(sum)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: a number that stands for nothing is ignored.
        unsafe { whet_msm_free(self.0) }
    }
}

fn hexadecimal(little_endian: &[u8]) -> String {
    little_endian.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}

fn main() -> Result<(), String> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [points, scalars] = paths.as_slice() else {
        return Err("usage: msm POINTS SCALARS".into());
    };
    let read = |path: &String| std::fs::read(path).map_err(|error| format!("{path}: {error}"));
    let sum = Engine::new(&read(points)?)?.sum(&read(scalars)?)?;
    println!("x 0x{}\ny 0x{}", hexadecimal(&sum[..32]), hexadecimal(&sum[32..]));
    Ok(())
}
