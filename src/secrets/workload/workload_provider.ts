/**
 * Secrets from a SPIFFE Workload API. Identities come from one stream; bundles from a second one, since
 * whoever only verifies needs no identity of its own, or from the first where a reference says whose
 * bundles it means or the agent does not know the second. Each stream serves all references.
 *
 * @module
 */

import { type Address, type Clock, formatAddress, type Random } from "../../base/mod.ts";
import { createGrpcChannel, type GrpcChannel, type MessageTypes } from "../../grpc/mod.ts";
import { type DialEngine } from "../../http/mod.ts";
import { loadSecret, mergeValidation, type ReadSource, type TlsFault } from "../load/mod.ts";
import { type SecretRef, WITHDRAWAL_GRACE_MS } from "../plan.ts";
import type { FileSystem } from "../file/file_system.ts";
import { SocketArrivals } from "../file/socket_arrivals.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "../secret_provider.ts";
import type { SecretType } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";
import { Feed } from "./feed.ts";
import { type ReadMessage, SvidFollower } from "./svid_follower.ts";
import {
  type BundlesMessage,
  decodeBundles,
  decodeSvids,
  MESSAGE_LIMIT_BYTES,
  type SvidMessage,
} from "./workload_messages.ts";
import { WorkloadStream, type WorkloadStreamEvents } from "./workload_stream.ts";
import {
  absence,
  bundlesFor,
  certificateSpecOf,
  chooseSvid,
  type SvidChoice,
  validationSpecOf,
} from "./svid.ts";

export interface WorkloadDeps {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  /** For what configuration merges with a bundle, such as its own CRL file. */
  readonly read: ReadSource;
  /** The engine's. */
  readonly tlsFault: TlsFault;
  /** Where sockets are looked for; default: the machine's. */
  readonly files?: FileSystem;
}

/** The service has no package. */
export const WORKLOAD_METHODS = {
  svids: "/SpiffeWorkloadAPI/FetchX509SVID",
  bundles: "/SpiffeWorkloadAPI/FetchX509Bundles",
} as const;

export type WorkloadMethod = keyof typeof WORKLOAD_METHODS;

/** Every reference watched must be of kind `workload` and this address. */
export function createWorkloadProvider(address: Address, deps: WorkloadDeps): SecretProvider {
  return new WorkloadProvider(address, deps);
}

/** Requests have no fields, and answers are decoded by the feed. */
const RAW: MessageTypes<Uint8Array, Uint8Array> = {
  encode: (bytes) => bytes,
  decode: (bytes) => bytes,
};

class WorkloadProvider implements SecretProvider {
  readonly #address: Address;
  readonly #deps: WorkloadDeps;
  readonly #channel: GrpcChannel;
  readonly #arrivals: SocketArrivals;
  readonly #svids: Feed<SvidMessage>;
  readonly #bundles: Feed<BundlesMessage>;
  readonly #readers = new Map<SvidFollower, ReadMessage<SvidMessage>>();
  /** By {@link keyOf} a choice; kept while nothing of it is offered. */
  readonly #idsInUse = new Map<string, string>();
  #hasBundles = true;
  #closed = false;

  constructor(address: Address, deps: WorkloadDeps) {
    this.#address = address;
    this.#deps = deps;
    this.#channel = createGrpcChannel({
      engine: deps.engine,
      clock: deps.clock,
      random: deps.random,
      addresses: [address],
      tls: null,
      // Keeps a proxy that can be talked into fetching URLs from fetching keys.
      metadata: { "workload.spiffe.io": "true" },
      keepAliveMs: 30_000,
      keepAliveTimeoutMs: 5_000,
      limits: { messageBytes: MESSAGE_LIMIT_BYTES },
    });
    const { clock, random, files } = deps;
    this.#arrivals = new SocketArrivals({
      clock,
      random,
      ...files && { files },
      addresses: [address],
      onArrival: () => this.#refresh(),
    });
    this.#svids = new Feed<SvidMessage>({
      open: (events) => this.#open("svids", events),
      decode: decodeSvids,
    });
    this.#bundles = new Feed<BundlesMessage>({
      open: (events) => this.#open("bundles", events),
      decode: decodeBundles,
      onUnimplemented: () => this.#doWithoutBundles(),
    });
  }

  watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    const { name, source, type } = ref;
    if (source.kind !== "workload" || this.#closed) {
      throw new TypeError(`Cannot watch ${name}: it is no secret of this Workload API`);
    }
    const follower = new SvidFollower({
      events,
      onTaken: (secret) => {
        const id = secret.type === "certificate" ? secret.uris[0] : undefined;
        if (id !== undefined) this.#idsInUse.set(keyOf(source), id);
      },
      name: `"${name}" of ${this.#where}`,
      load: (spec) => this.#load(ref, spec),
      clock: this.#deps.clock,
      graceMs: source.withdrawalGraceMs ?? WITHDRAWAL_GRACE_MS,
    });
    this.#readers.set(follower, this.#readerOf(type, source));
    const chosen = source.id !== undefined || source.hint !== undefined;
    if (type === "certificate" || chosen || !this.#hasBundles) {
      this.#svids.add(follower, this.#readerOf(type, source));
    } else this.#bundles.add(follower, readBundles);
    return {
      refresh: () => this.#refresh(),
      close: () => {
        follower.close();
        this.#readers.delete(follower);
        this.#svids.remove(follower);
        this.#bundles.remove(follower);
      },
    };
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const follower of this.#readers.keys()) follower.close();
    this.#readers.clear();
    this.#svids.close();
    this.#bundles.close();
    this.#arrivals.end();
    this.#channel.close();
    return Promise.resolve();
  }

  get #where(): string {
    return `the Workload API at ${formatAddress(this.#address)}`;
  }

  #open(method: WorkloadMethod, events: WorkloadStreamEvents): WorkloadStream {
    const { clock, random } = this.#deps;
    return new WorkloadStream({
      open: (handler) => {
        const call = this.#channel.open(WORKLOAD_METHODS[method], RAW, handler);
        call.send(new Uint8Array());
        call.halfClose();
        return call;
      },
      clock,
      random,
      events: {
        onMessage: (bytes) => {
          this.#arrivals.end();
          return events.onMessage(bytes);
        },
        onFailed: (failure) => {
          this.#arrivals.begin();
          return events.onFailed(failure);
        },
      },
      where: this.#where,
    });
  }

  #refresh(): void {
    this.#svids.refresh();
    this.#bundles.refresh();
  }

  /** Agents older than the method send every bundle with the identities, too. */
  #doWithoutBundles(): void {
    this.#hasBundles = false;
    for (const follower of this.#bundles.takeAll()) {
      const read = this.#readers.get(follower);
      if (read) this.#svids.add(follower, read);
    }
  }

  #readerOf(type: SecretType, choice: SvidChoice): ReadMessage<SvidMessage> {
    return (message) => {
      const idInUse = this.#idsInUse.get(keyOf(choice));
      const svid = chooseSvid(message, choice, idInUse);
      if (!svid) return { kind: "absent", fact: absence(message) };
      const isGone = idInUse !== undefined &&
        !message.svids.some(({ spiffeId }) => spiffeId === idInUse);
      return {
        kind: isGone ? "another" : "there",
        spec: () =>
          type === "certificate"
            ? certificateSpecOf(svid)
            : validationSpecOf(bundlesFor(svid, message), message.crls),
      };
    };
  }

  #load(ref: SecretRef, spec: SecretSpec): ReturnType<typeof loadSecret> {
    const { clock, read, tlsFault } = this.#deps;
    const whole = spec.type === "validation" && ref.defaults
      ? mergeValidation(ref.defaults, spec)
      : spec;
    return loadSecret(whole, read, { nowMs: clock.now(), tlsFault });
  }
}

/** References that mean the same SVID go by the same one. */
function keyOf({ id, hint }: SvidChoice): string {
  return JSON.stringify([id, hint]);
}

const readBundles: ReadMessage<BundlesMessage> = ({ bundles, crls }) => ({
  kind: "there",
  spec: () => validationSpecOf(bundles, crls),
});
