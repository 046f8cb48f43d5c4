/** Messages of Protocol Buffers (proto3) to plain values and back, by a table of their fields. @module */

import {
  FIXED32,
  FIXED64,
  LENGTH_DELIMITED,
  ProtobufReader as Reader,
  ProtobufWriter as Writer,
  VARINT,
} from "./protobuf_wire.ts";

/** A message as plain data. An absent field has its default: 0, false, nothing. */
export type PlainMessage = Readonly<Record<string, unknown>>;

/** A field of this type; its default for an absent one. */
export function plainText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function plainBytes(value: unknown): Uint8Array {
  return value instanceof Uint8Array ? value : new Uint8Array();
}

export function plainList(value: unknown): readonly PlainMessage[] {
  return Array.isArray(value) ? value : [];
}

/**
 * Messages by name, each with its fields by name: number and type, as in `.proto` files. The type may
 * follow `repeated`, `map` (with texts as keys), or `oneof`, of which a message has one at most. A type is
 * a scalar one, the name of a message, or `enum` and the names of its values, from 0 on. An `int64` is a
 * number, a `uint64` or `fixed64` the text of its digits.
 *
 * @example
 * { Leaf: { name: "1 string" }, Tree: { leaves: "1 repeated Leaf", kind: "2 enum NONE SOME" } }
 */
export type ProtobufTypes = Readonly<Record<string, Readonly<Record<string, string>>>>;

const SCALARS = [
  "string",
  "bytes",
  "bool",
  "int32",
  "uint32",
  "int64",
  "uint64",
  "fixed32",
  "fixed64",
  "double",
] as const;
type Scalar = typeof SCALARS[number];

const RULES = ["repeated", "map", "oneof"] as const;

interface Field {
  readonly name: string;
  readonly number: number;
  readonly rule: "single" | typeof RULES[number];
  readonly type: Scalar | "enum" | "message";
  readonly values: readonly string[];
  readonly message: string;
}

type Fields = readonly Field[];

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class Protobuf {
  readonly #types: ProtobufTypes;
  readonly #fields = new Map<string, Fields>();

  constructor(types: ProtobufTypes) {
    this.#types = types;
  }

  encode(type: string, message: PlainMessage): Uint8Array {
    const writer = new Writer();
    this.#write(writer, type, message);
    return writer.bytes.slice(0, writer.length);
  }

  /**
   * Throws for bytes that are no such message. Fields that are not in the table are left out; an `int64`
   * is rounded; an enum's value without a name is its number. `bytes` share memory with the message.
   * The last one of a repeated message in a singular field counts.
   */
  decode(type: string, bytes: Uint8Array): PlainMessage {
    return this.#read(new Reader(bytes), type, bytes.length);
  }

  #fieldsOf(type: string): Fields {
    let fields = this.#fields.get(type);
    if (!fields) {
      const written = this.#types[type];
      if (!written) throw new TypeError(`there is no message ${type}`);
      fields = Object.entries(written).map(([name, text]) => fieldOf(name, text));
      this.#fields.set(type, fields);
    }
    return fields;
  }

  #write(writer: Writer, type: string, message: PlainMessage): void {
    for (const field of this.#fieldsOf(type)) {
      const value = message[field.name];
      if (value === undefined || isDefault(field, value)) continue;
      switch (field.rule) {
        case "repeated":
          for (const item of value as readonly unknown[]) this.#writeField(writer, field, item);
          break;
        case "map":
          for (const [key, entry] of Object.entries(value as PlainMessage)) {
            writer.within(field.number, () => {
              writer.text(1, key);
              this.#writeField(writer, { ...field, number: 2 }, entry);
            });
          }
          break;
        default:
          this.#writeField(writer, field, value);
      }
    }
  }

  #writeField(writer: Writer, { number, type, values, message }: Field, value: unknown): void {
    switch (type) {
      case "message":
        return writer.within(number, () => this.#write(writer, message, value as PlainMessage));
      case "string":
        return writer.text(number, String(value));
      case "bytes":
        return writer.chunk(number, value as Uint8Array);
      case "double":
        return writer.double(number, Number(value));
      case "uint64":
        return writer.digits(number, BigInt(String(value)));
      case "fixed32":
        return writer.fixed32(number, Number(value));
      case "fixed64":
        return writer.fixed64(number, BigInt(String(value)));
      case "enum":
        return writer.integer(number, values.indexOf(String(value)));
      default:
        return writer.integer(number, Number(value));
    }
  }

  #read(reader: Reader, type: string, end: number): PlainMessage {
    const fields = this.#fieldsOf(type);
    const message: Record<string, unknown> = {};
    while (reader.at < end) {
      const tag = reader.tag();
      const field = fields.find(({ number }) => number === tag >>> 3);
      if (!field || wireTypeOf(field) !== (tag & 7)) reader.skip(tag & 7);
      else this.#take(message, field, { reader, fields });
    }
    if (reader.at > end) throw new RangeError("a field goes beyond its message");
    return message;
  }

  #take(
    message: Record<string, unknown>,
    field: Field,
    { reader, fields }: { readonly reader: Reader; readonly fields: Fields },
  ): void {
    const { name, rule } = field;
    if (rule === "map") {
      const [key, entry] = this.#readEntry(reader, field);
      // Any key, `__proto__` included, becomes a field of the object's own.
      Object.defineProperty(message[name] ??= {}, key, { value: entry, ...PLAIN });
      return;
    }
    const value = this.#readField(reader, field);
    if (rule === "repeated") return void ((message[name] ??= []) as unknown[]).push(value);
    if (rule === "oneof") {
      for (const other of fields) if (other.rule === "oneof") delete message[other.name];
    }
    if (isDefault(field, value)) delete message[name];
    else message[name] = value;
  }

  #readEntry(reader: Reader, field: Field): readonly [key: string, entry: unknown] {
    const end = reader.end();
    let key = "";
    let entry: unknown;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === (1 << 3 | LENGTH_DELIMITED)) key = DECODER.decode(reader.chunk());
      else if (tag === (2 << 3 | LENGTH_DELIMITED)) entry = this.#readField(reader, field);
      else reader.skip(tag & 7);
    }
    if (reader.at > end) throw new RangeError("a field goes beyond its message");
    const { type, message } = field;
    entry ??= type === "string"
      ? ""
      : type === "bytes"
      ? new Uint8Array()
      : this.decode(message, NONE);
    return [key, entry];
  }

  #readField(reader: Reader, { type, values, message }: Field): unknown {
    switch (type) {
      case "message": {
        const end = reader.end();
        return this.#read(reader, message, end);
      }
      case "string":
        return DECODER.decode(reader.chunk());
      case "bytes":
        return reader.chunk();
      case "double":
        return reader.double();
      case "bool":
        return reader.varint() !== 0 || reader.high !== 0;
      case "int64":
        return reader.varint() + (reader.high | 0) * 2 ** 32;
      case "uint64": {
        const low = reader.varint();
        return ((BigInt(reader.high >>> 0) << 32n) | BigInt(low)).toString();
      }
      case "fixed32":
        return reader.fixed32();
      case "fixed64":
        return reader.fixed64().toString();
      case "uint32":
        return reader.varint();
      case "int32":
        return reader.varint() | 0;
      case "enum": {
        const value = reader.varint() | 0;
        return values[value] ?? value;
      }
    }
  }
}

const PLAIN = { enumerable: true, configurable: true, writable: true } as const;
const NONE = new Uint8Array();

function fieldOf(name: string, text: string): Field {
  const [number = "", ...words] = text.split(" ");
  const rule = RULES.find((rule) => rule === words[0]) ?? "single";
  const [type = "", ...values] = rule === "single" ? words : words.slice(1);
  const scalar = SCALARS.find((scalar) => scalar === type);
  const kind = type === "enum" ? "enum" : scalar ?? "message";
  return { name, number: Number(number), rule, type: kind, values, message: type };
}

/** Default values, which are not written (proto3), except in a `oneof`. */
function isDefault({ rule, type, values }: Field, value: unknown): boolean {
  if (rule !== "single" || type === "message") return false;
  if (type === "bytes") return (value as Uint8Array).length === 0;
  if (type === "uint64" || type === "fixed64") return value === "0";
  return value === "" || value === 0 || value === false || (type === "enum" && value === values[0]);
}

function wireTypeOf({ type, rule }: Field): number {
  if (rule === "map" || ["string", "bytes", "message"].includes(type)) return LENGTH_DELIMITED;
  if (type === "fixed32") return FIXED32;
  return type === "double" || type === "fixed64" ? FIXED64 : VARINT;
}
