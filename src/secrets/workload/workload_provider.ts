/**
 * Secrets from a SPIFFE Workload API. All references share a stream of identities and one of bundles, because
 * a process that only verifies peers needs no identity. Bundles come from the first one if a reference selects
 * an identity, or the agent does not implement the second method.
 *
 * @module
 */

import { type Address, type Clock, formatAddress, type Random } from "../../base/mod.ts";
import { GrpcChannel, type MessageTypes } from "../../grpc/mod.ts";
import type { DialEngine } from "../../http/mod.ts";
import type { FileSystem } from "../file/file_system.ts";
import { SocketArrivals } from "../file/socket_arrivals.ts";
import { type LoadSecret, withDefaults } from "../load/mod.ts";
import {
  type SecretEvents,
  type SecretProvider,
  type SecretRef,
  type SecretWatch,
  WITHDRAWAL_GRACE_MS,
} from "../model/plan.ts";
import type { SecretType } from "../model/secret.ts";
import { Feed, type FeedFollower, type ReadMessage, SvidFollower } from "./feed.ts";
import {
  absence,
  bundlesFor,
  certificateSpecOf,
  chooseSvid,
  type SvidChoice,
  validationSpecOf,
} from "./svid.ts";
import {
  type BundlesMessage,
  decodeBundles,
  decodeSvids,
  MESSAGE_LIMIT_BYTES,
  type SvidMessage,
} from "./workload_messages.ts";

interface WorkloadDeps {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  /** Loads secrets, and what a validation has from the configuration, such as a CRL file. */
  readonly load: LoadSecret;
  /** For the arrival of the agent's socket; default: the machine's. */
  readonly files?: FileSystem;
}

/** The service has no package. */
export const WORKLOAD_METHODS = {
  svids: "/SpiffeWorkloadAPI/FetchX509SVID",
  bundles: "/SpiffeWorkloadAPI/FetchX509Bundles",
} as const;

export type WorkloadMethod = keyof typeof WORKLOAD_METHODS;

/** Requests have no fields; the feed decodes responses. */
const RAW: MessageTypes<Uint8Array, Uint8Array> = {
  encode: (bytes) => bytes,
  decode: (bytes) => bytes,
};

/** Every reference must be of kind `workload` and this address. */
export class WorkloadProvider implements SecretProvider {
  readonly #where: string;
  readonly #deps: WorkloadDeps;
  readonly #channel: GrpcChannel;
  readonly #arrivals: SocketArrivals;
  readonly #svids: Feed<SvidMessage>;
  readonly #bundles: Feed<BundlesMessage>;
  readonly #readers = new Map<FeedFollower, ReadMessage<SvidMessage>>();
  /** By {@link keyOf} a choice; kept while no SVID fits it. */
  readonly #idsInUse = new Map<string, string>();
  #hasBundles = true;
  #closed = false;

  constructor(address: Address, deps: WorkloadDeps) {
    this.#where = `the Workload API at ${formatAddress(address)}`;
    this.#deps = deps;
    this.#channel = new GrpcChannel({
      ...deps,
      addresses: [address],
      tls: null,
      // Required by the agent: a proxy that can be made to fetch URLs does not send it.
      metadata: { "workload.spiffe.io": "true" },
      keepAliveMs: 30_000,
      keepAliveTimeoutMs: 5_000,
      limits: { messageBytes: MESSAGE_LIMIT_BYTES },
    });
    this.#arrivals = new SocketArrivals({
      ...deps,
      addresses: [address],
      onArrival: () => this.#refresh(),
    });
    const feed = <M>(
      method: WorkloadMethod,
      decode: (bytes: Uint8Array) => M,
      onUnimplemented?: () => void,
    ) =>
      new Feed<M>({
        open: (handler) => {
          const call = this.#channel.open(WORKLOAD_METHODS[method], RAW, handler);
          call.send(new Uint8Array());
          call.halfClose();
          return call;
        },
        decode,
        ...onUnimplemented && { onUnimplemented },
        arrivals: this.#arrivals,
        ...deps,
        where: this.#where,
      });
    this.#svids = feed("svids", decodeSvids);
    this.#bundles = feed("bundles", decodeBundles, () => this.#doWithoutBundles());
  }

  watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    const { name, source, type, defaults } = ref;
    if (source.kind !== "workload" || this.#closed) {
      throw new TypeError(`Cannot watch ${name}: it is no secret of this Workload API`);
    }
    const { clock, load } = this.#deps;
    const follower = new SvidFollower({
      events,
      onAccepted: (secret) => {
        const id = secret.type === "certificate" ? secret.uris[0] : undefined;
        if (id !== undefined) this.#idsInUse.set(keyOf(source), id);
      },
      name: `"${name}" of ${this.#where}`,
      load: (spec) => load(withDefaults(spec, defaults)),
      clock,
      graceMs: source.withdrawalGraceMs ?? WITHDRAWAL_GRACE_MS,
    });
    const read = this.#readerOf(type, source);
    this.#readers.set(follower, read);
    const isChosen = source.id !== undefined || source.hint !== undefined;
    if (type === "certificate" || isChosen || !this.#hasBundles) this.#svids.add(follower, read);
    else this.#bundles.add(follower, readBundles);
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

  #refresh(): void {
    this.#svids.refresh();
    this.#bundles.refresh();
  }

  /** Agents older than the method send every bundle with the identities, too. */
  #doWithoutBundles(): void {
    this.#hasBundles = false;
    for (const follower of this.#bundles.close()) {
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
}

/** References with the same choice use the same SVID. */
function keyOf({ id, hint }: SvidChoice): string {
  return JSON.stringify([id, hint]);
}

const readBundles: ReadMessage<BundlesMessage> = ({ bundles, crls }) => ({
  kind: "there",
  spec: () => validationSpecOf(bundles, crls),
});
