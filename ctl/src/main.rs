//! `causewayctl`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    causewayctl::run()
}
