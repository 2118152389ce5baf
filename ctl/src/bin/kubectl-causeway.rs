//! `kubectl causeway`: the same program under the name by which kubectl finds it.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    causewayctl::run()
}
