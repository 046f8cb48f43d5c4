/**
 * A SPIFFE Workload API for tests, on the gRPC library's own server: it sends the test's messages on
 * every stream that is open and on those to come, and ends, stalls or dies on demand.
 *
 * @example
 * await using server = await startWorkloadServer();
 * server.sendSvids({ svids: [svidOf(ca, "spiffe://example.org/web")] });
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createPrivateKey } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import grpc from "@grpc/grpc-js";
import type { Address } from "../../../src/base/mod.ts";
import type { Authority, CertificateOverrides } from "../certs/authority.ts";
import type { KeyKind } from "../certs/mint.ts";
import {
  WORKLOAD_METHODS,
  type WorkloadMethod,
} from "../../../src/secrets/workload/workload_provider.ts";
import { WORKLOAD_PROTOBUF } from "../../../src/secrets/workload/workload_messages.ts";

export interface SvidFields {
  readonly spiffeId: string;
  readonly chain: Uint8Array;
  readonly key: Uint8Array;
  readonly bundle: Uint8Array;
  readonly hint?: string;
}

interface SvidsFields {
  readonly svids: readonly SvidFields[];
  readonly federated?: Readonly<Record<string, Uint8Array>>;
  readonly crls?: readonly Uint8Array[];
}

interface BundlesFields {
  readonly bundles: Readonly<Record<string, Uint8Array>>;
  readonly crls?: readonly Uint8Array[];
}

/** An SVID that `authority` issues; each given field replaces its own. */
export function svidOf(
  authority: Authority,
  spiffeId: string,
  options: Partial<SvidFields> & {
    readonly keyKind?: KeyKind;
    readonly overrides?: CertificateOverrides;
  } = {},
): SvidFields {
  const { keyKind = "ec-p256", overrides = {}, ...fields } = options;
  const leaf = authority.issueLeaf({ service: "svid", uri: spiffeId, keyKind, overrides });
  return {
    spiffeId,
    chain: Buffer.concat([leaf.certDer, ...leaf.chainDer]),
    key: createPrivateKey(leaf.keyPem).export({ type: "pkcs8", format: "der" }),
    bundle: authority.rootDer,
    ...fields,
  };
}

export function encodeSvids(message: SvidsFields): Uint8Array {
  const { svids, federated = {}, crls = [] } = message;
  return WORKLOAD_PROTOBUF.encode("X509SVIDResponse", {
    svids: svids.map(({ spiffeId, chain, key, bundle, hint = "" }) => ({
      spiffe_id: spiffeId,
      x509_svid: chain,
      x509_svid_key: key,
      bundle,
      hint,
    })),
    crl: crls,
    federated_bundles: federated,
  });
}

export function encodeBundles(message: BundlesFields): Uint8Array {
  const { bundles, crls = [] } = message;
  return WORKLOAD_PROTOBUF.encode("X509BundlesResponse", { crl: crls, bundles });
}

interface WorkloadServerOptions {
  /** Default: a socket in a directory of its own. */
  readonly address?: Address;
}

type Stream = grpc.ServerWritableStream<Buffer, Buffer>;

/** The answer of streams of one method: a message, the end, or nothing. */
type Answer =
  | { readonly kind: "message"; readonly bytes: Uint8Array }
  | { readonly kind: "end"; readonly code: number; readonly details: string }
  | { readonly kind: "stall" };

const METHODS = ["svids", "bundles"] as const satisfies readonly WorkloadMethod[];

export async function startWorkloadServer(
  options: WorkloadServerOptions = {},
): Promise<WorkloadServer> {
  const directory = options.address ? undefined : mkdtempSync(join(tmpdir(), "workload-"));
  const address = options.address ??
    { kind: "unix", path: join(directory ?? "", "agent.sock") } as const;
  const server = new WorkloadServer({
    address,
    directory,
  });
  await server.start();
  return server;
}

export class WorkloadServer {
  /** Streams opened so far, by method. */
  readonly opened: Record<WorkloadMethod, number> = { svids: 0, bundles: 0 };
  readonly #directory: string | undefined;
  readonly #answers: Record<WorkloadMethod, Answer> = {
    svids: { kind: "stall" },
    bundles: { kind: "stall" },
  };
  readonly #streams: Record<WorkloadMethod, Set<Stream>> = {
    svids: new Set(),
    bundles: new Set(),
  };
  readonly #waiting = new Set<() => void>();
  #address: Address;
  #server: grpc.Server | undefined;

  constructor(options: {
    readonly address: Address;
    readonly directory: string | undefined;
  }) {
    this.#address = options.address;
    this.#directory = options.directory;
  }

  get address(): Address {
    return this.#address;
  }

  /** Streams open now. */
  open(method: WorkloadMethod): number {
    return this.#streams[method].size;
  }

  sendSvids(message: SvidsFields): void {
    this.sendBytes("svids", encodeSvids(message));
  }

  sendBundles(message: BundlesFields): void {
    this.sendBytes("bundles", encodeBundles(message));
  }

  /** Anything, as a message. */
  sendBytes(method: WorkloadMethod, bytes: Uint8Array): void {
    this.#say(method, { kind: "message", bytes });
  }

  /** Ends the streams of a method, and those that are opened until something else is sent. */
  end(method: WorkloadMethod, code: number, details = ""): void {
    this.#say(method, { kind: "end", code, details });
  }

  /** Ends the streams that are open with OK; new ones get the last answer. */
  hangUp(method: WorkloadMethod): void {
    for (const stream of [...this.#streams[method]]) stream.end();
  }

  /** New streams hear nothing. */
  stall(method: WorkloadMethod): void {
    this.#answers[method] = { kind: "stall" };
  }

  /** Resolves when so many streams of a method have been opened in all. */
  async opens(method: WorkloadMethod, count: number): Promise<void> {
    while (this.opened[method] < count) {
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  /** Resolves when so many streams of a method are open. */
  async settles(method: WorkloadMethod, count: number): Promise<void> {
    while (this.#streams[method].size !== count) {
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  /** Listens, for the first time or again. */
  async start(): Promise<void> {
    const server = new grpc.Server();
    const plain = (bytes: Buffer) => bytes;
    for (const method of METHODS) {
      server.register(
        WORKLOAD_METHODS[method],
        (stream: Stream) => this.#take(method, stream),
        plain,
        plain,
        "serverStream",
      );
    }
    const address = this.#address;
    const target = address.kind === "unix"
      ? `unix:${address.path}`
      : `${address.host}:${address.port}`;
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync(target, grpc.ServerCredentials.createInsecure(), (error, bound) => {
        if (error) reject(error);
        else resolve(bound);
      });
    });
    if (address.kind === "tcp") this.#address = { ...address, port };
    this.#server = server;
  }

  /** Cuts every connection and stops listening. */
  kill(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
    for (const method of METHODS) this.#streams[method].clear();
    if (this.#address.kind === "unix") rmSync(this.#address.path, { force: true });
    this.#wake();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.kill();
    if (this.#directory) rmSync(this.#directory, { recursive: true, force: true });
    return Promise.resolve();
  }

  #take(method: WorkloadMethod, stream: Stream): void {
    this.opened[method]++;
    // The standard's rule against server-side request forgery.
    if (stream.metadata.get("workload.spiffe.io").join() !== "true") {
      stream.emit("error", { code: grpc.status.INVALID_ARGUMENT, details: "security header" });
      return this.#wake();
    }
    this.#streams[method].add(stream);
    const gone = () => {
      this.#streams[method].delete(stream);
      this.#wake();
    };
    stream.on("cancelled", gone);
    stream.on("finish", gone);
    stream.on("error", gone);
    this.#give(stream, this.#answers[method]);
    this.#wake();
  }

  #say(method: WorkloadMethod, answer: Answer): void {
    this.#answers[method] = answer;
    for (const stream of [...this.#streams[method]]) this.#give(stream, answer);
  }

  #give(stream: Stream, answer: Answer): void {
    switch (answer.kind) {
      case "message":
        stream.write(Buffer.from(answer.bytes));
        break;
      case "end":
        if (answer.code === grpc.status.OK) stream.end();
        else stream.emit("error", { code: answer.code, details: answer.details });
        break;
      case "stall":
        break;
    }
  }

  #wake(): void {
    for (const resolve of [...this.#waiting]) resolve();
    this.#waiting.clear();
  }
}
