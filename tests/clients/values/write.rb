# Stores the values of cases.json with Dalli: write.rb PORT CASES.
require "dalli"
require "json"

# The bytes of a linear congruential generator, which is the same in every language.
def random(len)
  state = 1
  Array.new(len) do
    state = (state * 1_103_515_245 + 12_345) & 0x7fffffff
    (state >> 16) & 0xff
  end.pack("C*")
end

def build(value)
  return value.map { |element| build(element) } if value.is_a?(Array)
  return value unless value.is_a?(Hash)

  kind, with = value.first
  case kind
  when "float" then with.to_f
  when "hex" then [with].pack("H*")
  when "random" then random(with)
  when "repeat" then with[0] * with[1] + with[2].to_s
  when "map" then with.to_h { |key, element| [key, build(element)] }
  end
end

client = Dalli::Client.new("127.0.0.1:#{ARGV[0]}", compress: true, compression_min_size: 2000)
JSON.parse(File.read(ARGV[1])).each do |name, value|
  client.set(name.tr(" ", "_"), build(value)) unless name.start_with?("object")
end
