/**
 * Protobuf messages from a descriptor that `scripts/protocols.ts` made. The library is loaded with the
 * first one.
 *
 * @module
 */

import type { Root, Type } from "protobufjs/light.js";

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

/** `descriptor`: JSON, whose one package is `name`. */
export async function loadProtobuf(name: string, descriptor: string): Promise<Protobuf> {
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
      return found.toObject(found.decode(bytes), {
        longs: Number,
        enums: String,
        ...(options.bytes === "base64" ? { bytes: String } : {}),
      });
    },
  };
}
