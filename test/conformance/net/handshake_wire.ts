/**
 * A TLS 1.2 handshake in plain text as it passes by: its messages are read, and certificates are
 * replaced on the way, as a man in the middle would.
 *
 * @module
 */

import { connect, createServer } from "node:net";
import { record, vector } from "./client_hello.ts";

const HANDSHAKE_RECORD = 0x16;
export const CERTIFICATE = 11;
export const CERTIFICATE_REQUEST = 13;
export const SERVER_HELLO_DONE = 14;

/** Bytes of one direction in, messages out, until something else than a handshake in plain text comes. */
export class HandshakeReader {
  #bytes: Buffer = Buffer.alloc(0);
  #messages: Buffer = Buffer.alloc(0);
  #over = false;

  /** Whole messages with their headers; `rest` is what follows the last that will ever come. */
  read(chunk: Uint8Array): { readonly messages: Buffer[]; readonly rest: Buffer } {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    const messages: Buffer[] = [];
    while (!this.#over && this.#bytes.length >= 5) {
      if (this.#bytes[0] !== HANDSHAKE_RECORD) {
        this.#over = true;
        break;
      }
      const end = 5 + this.#bytes.readUInt16BE(3);
      if (this.#bytes.length < end) break;
      this.#messages = Buffer.concat([this.#messages, this.#bytes.subarray(5, end)]);
      this.#bytes = this.#bytes.subarray(end);
      messages.push(...this.#whole());
    }
    const rest = this.#over ? this.#bytes : Buffer.alloc(0);
    if (this.#over) this.#bytes = Buffer.alloc(0);
    return { messages, rest };
  }

  #whole(): Buffer[] {
    const found: Buffer[] = [];
    while (this.#messages.length >= 4) {
      const end = 4 + this.#messages.readUIntBE(1, 3);
      if (this.#messages.length < end) break;
      found.push(this.#messages.subarray(0, end));
      this.#messages = this.#messages.subarray(end);
    }
    return found;
  }
}

/** Passes everything on, but shows `certDer` instead of the certificates that `whose` side shows. */
export async function impostorWire(
  port: number,
  { whose, certDer }: { readonly whose: "client" | "server"; readonly certDer: Uint8Array },
): Promise<{ readonly port: number; readonly replaced: () => number } & AsyncDisposable> {
  let replaced = 0;
  const replacing = () => {
    const reader = new HandshakeReader();
    return (chunk: Buffer): Buffer => {
      const { messages, rest } = reader.read(chunk);
      const passed = messages.map((message) => {
        if (message[0] !== CERTIFICATE) return record(message);
        replaced++;
        return record(
          Buffer.concat([Buffer.of(CERTIFICATE), vector(3, vector(3, vector(3, certDer)))]),
        );
      });
      return Buffer.concat([...passed, rest]);
    };
  };
  const wire = createServer((client) => {
    const server = connect({ port, host: "127.0.0.1" });
    const fromClient = whose === "client" ? replacing() : (chunk: Buffer) => chunk;
    const fromServer = whose === "server" ? replacing() : (chunk: Buffer) => chunk;
    client.on("data", (chunk: Buffer) => server.write(fromClient(chunk)));
    server.on("data", (chunk: Buffer) => client.write(fromServer(chunk)));
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
    for (const socket of [client, server]) socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => wire.listen(0, "127.0.0.1", resolve));
  const address = wire.address() as { readonly port: number };
  return {
    port: address.port,
    replaced: () => replaced,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => wire.close(() => resolve())),
  };
}
