//! `cedar-guest` as the WebAssembly component that a bundle of Cedar policies carries.
//!
//! `bundle build` calls [`initialize`] once, with the bundle's data, and stores the memory that it leaves as the initial memory of
//! the component. Every evaluation starts from there, with the policies parsed and validated.

#![cfg(target_arch = "wasm32")]

mod allocator;

use allocator::ALLOCATOR;
use gateway_policy_sdk::HostData;

gateway_policy_sdk::export!(cedar_guest::CedarGuest);

/// Pages that an evaluation finds ready. Growing the memory costs a call of the host.
const SPARE_PAGES: usize = 8;

/// A text in this module's memory: address and length in bytes.
#[repr(C)]
pub struct Text {
    address: *const u8,
    bytes: usize,
}

/// Reads the bundle's files for all evaluations. Returns the fault, or null.
#[unsafe(export_name = "initialize-policy")]
pub extern "C" fn initialize() -> *const Text {
    gateway_policy_sdk::report_panics();
    if let Err(fault) = cedar_guest::prepare(&HostData) {
        let fault = fault.leak();
        return Box::leak(Box::new(Text { address: fault.as_ptr(), bytes: fault.len() }));
    }
    clear_stack();
    ALLOCATOR.0.start_on_new_pages(SPARE_PAGES);
    core::ptr::null()
}

/// Writes zeros to the part of the stack that was used and is free again, so that the snapshot does not contain it.
fn clear_stack() {
    /// The lowest address of the stack, which the linker places first, without the one that stands for null.
    const LOWEST: usize = 16;
    /// Bytes below this function's frame that the calls below may use.
    const MARGIN: usize = 4_096;
    let frame = core::hint::black_box(0_u8);
    let bytes = (&raw const frame as usize).saturating_sub(LOWEST + MARGIN);
    // SAFETY: the stack grows downwards to address 0, and nothing lives below this function's frame.
    unsafe { core::ptr::write_bytes(core::hint::black_box(LOWEST as *mut u8), 0, bytes) };
}
