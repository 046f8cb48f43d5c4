/** Bytes to values and back: PEM, DER, Protocol Buffers, JSON and YAML with positions. Pure and bounded. @module */
export * from "./der.ts";
export * from "./pem.ts";
export * from "./client_hello.ts";
export * from "./parse_json.ts";
export * from "./read_yaml.ts";
export * from "./protobuf.ts";
export { ProtobufWriter } from "./protobuf_wire.ts";
export * from "./der_writer.ts";
