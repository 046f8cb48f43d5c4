/**
 * A host for the protocol of SDS without sockets: remembers what is sent and told, and refuses what a
 * test wants refused.
 *
 * @module
 */

import { seededRandom } from "../../../src/base/mod.ts";
import {
  type SdsClient,
  type SdsResource,
  SECRET_TYPE_URL,
} from "../../../src/secrets/sds/sds_messages.ts";
import type { ProtocolHost, ProtocolOptions } from "../../../src/secrets/sds/sds_protocol.ts";
import { FakeClock } from "../clock/clock.ts";

export const SDS_CLIENT: SdsClient = {
  node: { id: "web-1", cluster: "web", metadata: {} },
  version: "0.1.0",
};

export const SECRET_TYPE = SECRET_TYPE_URL;

export class ProtocolHarness<Request> implements ProtocolHost {
  readonly clock = new FakeClock();
  readonly sent: Request[] = [];
  /** `accept web 1`, `rejected web: reason`, `removed web`. */
  readonly told: string[] = [];
  /** Reasons by name. */
  readonly refuse = new Map<string, string>();
  /** While set, nothing is accepted or refused. */
  hold: Promise<void> | undefined;

  get options(): ProtocolOptions<Request> {
    return {
      send: (request: Request) => void this.sent.push(request),
      host: this,
      clock: this.clock,
      random: seededRandom(1),
    };
  }

  /** What was sent since the last call. */
  take(): Request[] {
    return this.sent.splice(0);
  }

  async accept({ name, version }: { name: string; version: string }): Promise<string | undefined> {
    await this.hold;
    this.told.push(`accept ${name} ${version}`);
    return this.refuse.get(name);
  }

  rejected(name: string, reason: string): void {
    this.told.push(`rejected ${name}: ${reason}`);
  }

  removed(name: string): void {
    this.told.push(`removed ${name}`);
  }
}

/** A resource that can be read. */
export function sdsResource(name: string, version = "1", ttlMs?: number): SdsResource {
  const content = { kind: "secret", digest: `${name} ${version}`, read: () => ({ name }) } as const;
  return { name, version, ...(ttlMs !== undefined && { ttlMs }), content };
}
