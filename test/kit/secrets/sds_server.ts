/**
 * An SDS server inside the test, on the server side of the same gRPC library: state of the world and
 * delta as the reference server speaks them, a SPIRE agent's habits on demand, and whatever misbehaviour
 * a test writes itself.
 *
 * @example
 * await using server = await startSdsServer();
 * server.set("web", inlineCertificate("web", leaf));
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Address } from "../../../src/base/mod.ts";

import {
  SDS_METHODS,
  SDS_PROTOBUF,
  SECRET_RESOURCE,
} from "../../../src/secrets/sds/secret_resource.ts";
import type { PlainMessage } from "../../../src/wire/mod.ts";

/** A stream as the library's server gives it; writes are the bytes of a message. */
export interface ServerStream {
  readonly method: keyof typeof SDS_METHODS;
  readonly metadata: Readonly<Record<string, unknown>>;
  write(bytes: Uint8Array): boolean;
  /** Ends it with a status. */
  fail(code: number, details: string): void;
  end(): void;
}

interface SdsServerOptions {
  /** Default: a unix socket of its own. */
  readonly tcp?: { readonly port: number };
  readonly path?: string;
  readonly tls?: {
    readonly certPem: string;
    readonly keyPem: string;
    readonly clientCaPem: string;
    readonly requireClient: boolean;
  };
  /** Whether it speaks delta, which SPIRE does not. */
  readonly delta?: boolean;
  /** A SPIRE agent's habits (envoy.md 1.11). */
  readonly spire?: boolean;
  /** Takes a stream over; true: the server does nothing about it. */
  readonly onStream?: (stream: ServerStream) => boolean;
}

/** One request as it came. */
export interface SeenRequest {
  readonly method: keyof typeof SDS_METHODS;
  /** Counts streams from 1. */
  readonly stream: number;
  readonly request: PlainMessage;
}

interface Client {
  readonly number: number;
  readonly stream: ServerStream;
  names: string[];
  /** The versions that the client has, by name (delta). */
  readonly versions: Map<string, string>;
  nonce: string;
  sent: number;
  /** State of the world: the last response sent; unchanged: nothing is sent. */
  lastState: string;
  /** State of the world: the last response has been answered, and so the next may go. */
  answered: boolean;
}

type Library = typeof import("@grpc/grpc-js");

export class SdsServer implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  streams = 0;
  readonly #options: SdsServerOptions;
  readonly #secrets = new Map<string, { readonly value: PlainMessage; readonly version: number }>();
  readonly #clients = new Set<Client>();
  readonly #waiting = new Set<() => void>();
  #version = 0;
  #address: Address = { kind: "unix", path: "" };
  #stop: () => Promise<void> = () => Promise.resolve();

  constructor(options: SdsServerOptions) {
    this.#options = options;
  }

  get address(): Address {
    return this.#address;
  }

  get open(): number {
    return this.#clients.size;
  }

  async listen(): Promise<void> {
    const { default: grpc } = await import("@grpc/grpc-js");
    const server = new grpc.Server({ "grpc.max_receive_message_length": 32 << 20 });
    const bytes = (value: Uint8Array) =>
      Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    const method = (path: string) => ({
      path,
      requestStream: true,
      responseStream: true,
      requestSerialize: bytes,
      requestDeserialize: bytes,
      responseSerialize: bytes,
      responseDeserialize: bytes,
    });
    const service = { sotw: method(SDS_METHODS.sotw), delta: method(SDS_METHODS.delta) };
    server.addService(service, {
      sotw: (call: Call) => this.#serve("sotw", call),
      delta: (call: Call) => this.#serve("delta", call),
    });
    const { tcp, tls } = this.#options;
    const directory = mkdtempSync(join(tmpdir(), "sds-"));
    const path = this.#options.path ?? join(directory, "sds.sock");
    const target = tcp ? `127.0.0.1:${tcp.port}` : `unix:${path}`;
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync(
        target,
        credentialsOf(grpc, tls),
        (error, bound) => error ? reject(error) : resolve(bound),
      );
    });
    this.#address = tcp ? { kind: "tcp", host: "127.0.0.1", port } : { kind: "unix", path };
    this.#stop = () => {
      server.forceShutdown();
      rmSync(directory, { recursive: true, force: true });
      if (!tcp) rmSync(path, { force: true });
      return Promise.resolve();
    };
  }

  /** Takes a secret into the server, or out of it, and sends the change on every stream. */
  set(...secrets: readonly (PlainMessage | string)[]): void {
    this.#version++;
    for (const secret of secrets) {
      if (typeof secret === "string") this.#secrets.delete(secret);
      else this.#secrets.set(String(secret.name), { value: secret, version: this.#version });
    }
    for (const client of this.#clients) this.#push(client);
  }

  /** Resolves when a request has come (or come already) that `matches`. */
  async seen(matches: (seen: SeenRequest) => boolean): Promise<SeenRequest> {
    for (let from = 0;;) {
      const found = this.requests.slice(from).find(matches);
      if (found) return found;
      from = this.requests.length;
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  /** Bytes of a message of this server's. */
  encode(type: string, message: PlainMessage): Uint8Array {
    return SDS_PROTOBUF.encode(type, message);
  }

  /** Ends every stream with a status; new ones are served. */
  failAll(code: number, details: string): void {
    for (const { stream } of [...this.#clients]) stream.fail(code, details);
  }

  async close(): Promise<void> {
    await this.#stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #serve(method: keyof typeof SDS_METHODS, call: Call): void {
    const number = ++this.streams;
    const stream: ServerStream = {
      method,
      metadata: call.metadata.getMap(),
      write: (bytes) => call.write(bytes),
      fail: (code, details) => {
        this.#clients.delete(client);
        call.emit("error", { code, details });
      },
      end: () => call.end(),
    };
    const client: Client = {
      number,
      stream,
      names: [],
      versions: new Map(),
      nonce: "",
      sent: 0,
      lastState: "",
      answered: true,
    };
    const gone = () => void this.#clients.delete(client);
    call.on("cancelled", gone);
    call.on("end", gone);
    call.on("error", gone);
    if (this.#options.onStream?.(stream)) {
      call.on("data", (bytes: Uint8Array) => this.#saw(client, bytes));
      return;
    }
    if (method === "delta" && this.#options.delta === false) {
      return stream.fail(12, "unknown method DeltaSecrets");
    }
    this.#clients.add(client);
    call.on("data", (bytes: Uint8Array) => this.#take(client, this.#saw(client, bytes)));
  }

  #saw(client: Client, bytes: Uint8Array): PlainMessage {
    const { method } = client.stream;
    const type = method === "sotw" ? "DiscoveryRequest" : "DeltaDiscoveryRequest";
    const request = SDS_PROTOBUF.decode(type, bytes);
    this.requests.push({ method, stream: client.number, request });
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
    return request;
  }

  #take(client: Client, request: PlainMessage): void {
    const nonce = String(request.response_nonce ?? "");
    if (client.stream.method === "sotw") {
      if (nonce !== client.nonce) return; // stale: the client will answer the newer one
      client.names = listOf(request.resource_names);
      client.answered = true;
      const reason = this.#options.spire ? spireRefusal(client.names, this.#secrets) : undefined;
      if (reason !== undefined) return client.stream.fail(3, reason);
    } else {
      const subscribed = listOf(request.resource_names_subscribe);
      const held = (request.initial_resource_versions ?? {}) as Record<string, string>;
      for (const [name, version] of Object.entries(held)) client.versions.set(name, version);
      const gone = listOf(request.resource_names_unsubscribe);
      client.names = [...new Set([...client.names, ...subscribed])]
        .filter((name) => !gone.includes(name));
      for (const name of gone) client.versions.delete(name);
    }
    this.#push(client);
  }

  #push(client: Client): void {
    if (client.stream.method === "sotw") this.#pushState(client);
    else this.#pushChanges(client);
  }

  #pushState(client: Client): void {
    if (!client.answered) return;
    const found = client.names.flatMap((name) => this.#secrets.get(name) ?? []);
    if (found.length === 0) return;
    const state = JSON.stringify(
      found.map(({ value, version }) => [value.name, version]),
    );
    if (state === client.lastState) return;
    client.lastState = state;
    client.answered = false;
    client.sent++;
    client.nonce = this.#options.spire ? randomNonce() : String(client.sent);
    // SPIRE counts anew on each stream.
    const version = this.#options.spire ? client.sent - 1 : this.#version;
    client.stream.write(this.encode("DiscoveryResponse", {
      version_info: String(version),
      type_url: SECRET_RESOURCE.typeUrl,
      nonce: client.nonce,
      resources: found.map(({ value }) => this.#any(value)),
    }));
  }

  #pushChanges(client: Client): void {
    const resources: PlainMessage[] = [];
    const removed: string[] = [];
    for (const name of client.names) {
      const found = this.#secrets.get(name);
      const version = found ? String(found.version) : "";
      if (client.versions.get(name) === version) continue;
      client.versions.set(name, version);
      if (found) resources.push({ name, version, resource: this.#any(found.value) });
      else removed.push(name);
    }
    if (resources.length === 0 && removed.length === 0) return;
    client.sent++;
    client.stream.write(this.encode("DeltaDiscoveryResponse", {
      type_url: SECRET_RESOURCE.typeUrl,
      nonce: String(client.sent),
      system_version_info: String(this.#version),
      resources,
      removed_resources: removed,
    }));
  }

  #any(secret: PlainMessage): PlainMessage {
    return { type_url: SECRET_RESOURCE.typeUrl, value: this.encode("Secret", secret) };
  }
}

export async function startSdsServer(options: SdsServerOptions = {}): Promise<SdsServer> {
  const server = new SdsServer(options);
  await server.listen();
  return server;
}

/** A `Secret` with a certificate and its key. */
export function inlineCertificate(
  name: string,
  { certPem, keyPem }: { readonly certPem: string; readonly keyPem: string },
): PlainMessage {
  return {
    name,
    tls_certificate: {
      certificate_chain: { inline_bytes: Buffer.from(certPem) },
      private_key: { inline_bytes: Buffer.from(keyPem) },
    },
  };
}

/** A `Secret` with anchors. */
export function inlineBundle(name: string, pem: string): PlainMessage {
  return { name, validation_context: { trusted_ca: { inline_string: pem } } };
}

interface Call {
  readonly metadata: { getMap(): Record<string, unknown> };
  write(bytes: Uint8Array): boolean;
  end(): void;
  emit(event: "error", error: { readonly code: number; readonly details: string }): boolean;
  on(event: "data", listener: (bytes: Uint8Array) => void): unknown;
  on(event: "end" | "cancelled" | "error", listener: () => void): unknown;
}

function credentialsOf(grpc: Library, tls: SdsServerOptions["tls"]) {
  if (!tls) return grpc.ServerCredentials.createInsecure();
  return grpc.ServerCredentials.createSsl(
    Buffer.from(tls.clientCaPem),
    [{ private_key: Buffer.from(tls.keyPem), cert_chain: Buffer.from(tls.certPem) }],
    tls.requireClient,
  );
}

/** Only one alias of each kind, and nothing unknown (envoy.md 0.2). */
function spireRefusal(
  names: readonly string[],
  secrets: ReadonlyMap<string, unknown>,
): string | undefined {
  const unknown = names.filter((name) => !secrets.has(name));
  if (unknown.length > 0) return `workload is not authorized for [${unknown.join(" ")}]`;
  const bundles = names.filter((name) =>
    ["ROOTCA", "ALL"].includes(name) || /^spiffe:\/\/[^/]+$/.test(name)
  );
  const identities = names.filter((name) =>
    name === "default" || /^spiffe:\/\/[^/]+\/./.test(name)
  );
  if (bundles.length > 1 || identities.length > 1) return "unable to retrieve all requested names";
  return undefined;
}

function randomNonce(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(4))).toString("hex");
}

function listOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
