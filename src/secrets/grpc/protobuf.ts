/**
 * Protobuf messages from the descriptors that `scripts/protocols.ts` made. The library is loaded with
 * the first one.
 *
 * @module
 */

import type { Reader, Root, Type } from "protobufjs/light.js";
import { DESCRIPTORS } from "./proto_descriptors.ts";

/** A decoded message as plain data: own fields are those that were on the wire. */
export type PlainMessage = Readonly<Record<string, unknown>>;

export interface PlainOptions {
  /** `bytes` fields as Uint8Array, or as the base64 text of proto3 JSON. */
  readonly bytes: "binary" | "base64";
}

export interface Protobuf {
  encode(type: string, message: PlainMessage): Uint8Array;
  /** Throws for bytes that are no such message. */
  decode(type: string, bytes: Uint8Array, options: PlainOptions): PlainMessage;
}

export type ProtobufName = keyof typeof DESCRIPTORS;

const loading = new Map<ProtobufName, Promise<Protobuf>>();

export function loadProtobuf(name: ProtobufName): Promise<Protobuf> {
  let loaded = loading.get(name);
  if (!loaded) loading.set(name, loaded = readProtobuf(name, DESCRIPTORS[name]));
  return loaded;
}

/** `descriptor`: JSON, whose one package is `name`. */
export async function readProtobuf(name: string, descriptor: string): Promise<Protobuf> {
  const { default: protobuf } = await import("protobufjs/light.js");
  const root: Root = protobuf.Root.fromJSON(JSON.parse(descriptor));
  const types = new Map<string, Type>();
  const typeOf = (type: string): Type => {
    let found = types.get(type);
    if (!found) types.set(type, found = root.lookupType(`${name}.${type}`));
    return found;
  };
  return {
    encode: (type, message) => {
      const found = typeOf(type);
      return found.encode(found.fromObject(message)).finish();
    },
    decode: (type, bytes, options) => {
      const found = typeOf(type);
      countFields(found, protobuf.Reader.create(bytes));
      return found.toObject(found.decode(bytes), {
        longs: Number,
        enums: String,
        ...(options.bytes === "base64" ? { bytes: String } : {}),
      });
    },
  };
}

/** Ten thousand resources have some 30,000. */
const FIELDS_LIMIT = 200_000;

/**
 * Throws for more fields than any honest message has, those of messages in it included: an empty one takes
 * two bytes on the wire and a hundred times that here.
 */
function countFields(type: Type, reader: Reader): void {
  let count = 0;
  const walk = (type: Type | null, end: number) => {
    while (reader.pos < end) {
      if (++count > FIELDS_LIMIT) throw new RangeError(`it has more than ${FIELDS_LIMIT} fields`);
      const tag = reader.uint32();
      const inner = (tag & 7) === LENGTH_DELIMITED ? type && messageAt(type, tag >>> 3) : null;
      if (!inner) reader.skipType(tag & 7);
      else {
        const length = reader.uint32();
        walk(inner, Math.min(reader.pos + length, reader.len));
      }
    }
  };
  walk(type, reader.len);
}

const LENGTH_DELIMITED = 2;

/** What kind of message a field holds; `null`: none. An entry of a map counts as one field. */
function messageAt(type: Type, number: number): Type | null {
  const field = type.fieldsById[number]?.resolve();
  const found = field && !field.map ? field.resolvedType : null;
  return found && "fieldsById" in found ? found : null;
}
