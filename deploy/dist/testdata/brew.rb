# Installs a formula as Homebrew does, with as much of its language as ours needs:
#
#   brew.rb FORMULA SYSTEM CPU FOLDER PREFIX
#
# FOLDER is where the archive was unpacked. It prints the archive's address and checksum.
require "fileutils"
require "pathname"

FORMULA, SYSTEM, CPU, FOLDER, PREFIX = ARGV

class Formula
  class << self
    attr_reader :said, :check
    def say(name, value) = (@said ||= {})[name] = value
    %w[desc homepage version license url sha256].each { |name| define_method(name) { |value| say(name, value) } }
    %w[macos linux].each { |name| define_method("on_#{name}") { |&block| block.call if SYSTEM == name } }
    %w[arm intel].each { |name| define_method("on_#{name}") { |&block| block.call if CPU == name } }
    def test(&block) = @check = block
  end

  # Bin is the folder for programs.
  class Bin < Pathname
    def install(name)
      mkpath
      FileUtils.cp(name, self)
    end
  end

  def bin = Bin.new("#{PREFIX}/bin")
  def version = self.class.said.fetch("version")

  def shell_output(command)
    out = `#{command}`
    raise "#{command} fails" unless $?.success?
    out
  end

  def generate_completions_from_executable(program, command)
    %w[bash zsh fish].each { |shell| raise "no completion for #{shell}" if shell_output("#{program} #{command} #{shell}").empty? }
  end

  def assert_match(text, output) = output.include?(text) || raise("no #{text} in #{output}")
end

load FORMULA
Dir.chdir(FOLDER) { Unloop.new.install }
Unloop.new.instance_eval(&Unloop.check)
puts Unloop.said.values_at("url", "sha256")
