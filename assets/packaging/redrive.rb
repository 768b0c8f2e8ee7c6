# Formula of Homebrew that builds from a release's source. `dist` makes another one, with built programs; this one is
# for taps that build. Whoever releases puts the checksum of the archive in (`shasum -a 256`).
class Redrive < Formula
  desc "Guaranteed, in-order delivery of notifications over RabbitMQ"
  homepage "@repository@"
  url "@repository@/archive/refs/tags/v@version@.tar.gz"
  sha256 "SHA256_OF_THE_ARCHIVE"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args
    generate_completions_from_executable(bin/"redrive", "completions")
    system bin/"redrive", "man", "--out", buildpath/"man"
    man1.install Dir[buildpath/"man/*.1"]
  end

  service do
    run [opt_bin/"redrive", "--daemon"]
    keep_alive crashed: true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/redrive --version")
    system bin/"redrive", "config", "check"
  end
end
