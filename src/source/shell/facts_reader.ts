/** The contract between `SourceShell` and a reader of facts, which makes snapshots. @module */

import type { ProxyError } from "../../base/mod.ts";
import type { HeldSecrets, StoredSecrets } from "../../secrets/mod.ts";
import type { Refusal, Snapshot } from "../../snapshot/mod.ts";
import type { CredentialPlans } from "../parts/credential_plans.ts";
import type { StoredCredentials, StoredState } from "../state/stored_credentials.ts";
import type { Failing, SourceStatus } from "./source.ts";

export interface FactsReader {
  /** Name of the agent, the servers or the file in log lines. */
  readonly called: string;
  /** The part that the first snapshot lacks before anything was read. */
  readonly firstPart: string;
  readonly warnings: readonly string[];
  /** Watches that fail at present. */
  readonly failing: readonly Failing[];
  /** Absent: the configuration is at hand on every start. */
  readonly restoring?: Restoring;
  start(events: ReaderEvents): void;
  /** A snapshot of everything known at the moment, or what it still lacks. */
  make(context: MakeContext): MadeSnapshot;
  /** A snapshot is about to be applied. */
  published?(snapshot: Snapshot, previous: Snapshot | undefined): void;
  used?(upstreamIds: readonly string[]): void;
  unfollowed?(upstream: string | undefined): readonly string[];
  status(): ReaderStatus;
  /** Reads files again. Never rejects. False: they cannot be used, and {@link make} returns why. */
  reload(): Promise<boolean>;
  close(): void | Promise<void>;
}

export type ReaderStatus = Pick<
  SourceStatus,
  "kind" | "watches" | "servers" | "metrics" | "isGateway"
>;

export interface ReaderEvents {
  /** Facts have changed. Changes that come together make one snapshot. */
  changed(): void;
  /** A watch fails, or fails for another reason. */
  failing(failing: Failing): void;
  recovered(failing: Failing): void;
  /** No snapshot can ever be made. */
  fatal(error: ProxyError): void;
  /** Files that the configuration names have changed. */
  reload(): void;
}

export interface MakeContext {
  /** Its parts keep their versions where their content is the same. */
  readonly previous: Snapshot | undefined;
  /** Follows the secrets of these plans, first with those of an earlier run, and returns the held ones. */
  hold(plans: CredentialPlans, stored?: StoredSecrets): HeldSecrets;
}

export interface MadeSnapshot {
  readonly outcome:
    | { readonly kind: "ready"; readonly snapshot: Snapshot }
    | { readonly kind: "waiting"; readonly for: readonly string[] };
  readonly refused: readonly Refusal[];
  /** Upstreams without their data. */
  readonly pending: readonly string[];
  /** Listeners and upstreams that stay closed until their secrets have come: `inbound: web, roots`. */
  readonly warming: readonly string[];
  /** How many upstreams are among them. */
  readonly warmingUpstreams: number;
  /** When (monotonic) the outcome changes without new data; `undefined`: never. */
  readonly dueMs: number | undefined;
  /** New ones are logged. */
  readonly warnings?: readonly string[];
  /** Identity and policy were read in this run: a restored snapshot is no longer in use. */
  readonly isConfirmed?: boolean;
  /** Stored with the snapshot; `null`: none. Absent: not read yet, the restored ones stay. */
  readonly credentials?: StoredCredentials | null;
}

/** No snapshot can be made before these parts were read. */
export function waiting(parts: readonly string[], refused: readonly Refusal[]): MadeSnapshot {
  return {
    outcome: { kind: "waiting", for: parts },
    refused,
    pending: [],
    warming: [],
    warmingUpstreams: 0,
    dueMs: undefined,
  };
}

/** How a source starts with the stored snapshot while its configuration cannot be read. */
export interface Restoring {
  readonly proxyId: string;
  /** How long a first answer is waited for. */
  readonly graceMs: number;
  /** The peer is away: the stored snapshot may be used at once. */
  readonly isAway: (failing: Failing) => boolean;
  /** The peer refuses what every snapshot needs: the stored snapshot must not be used. */
  readonly isRefused: (failing: Failing) => boolean;
  plan(stored: StoredState): CredentialPlans;
}
