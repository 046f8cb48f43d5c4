/**
 * A host of the discovery protocol without sockets: records requests and calls, and refuses resources on
 * demand.
 *
 * @module
 */

import { seededRandom } from "../../../src/base/mod.ts";
import { SECRET_RESOURCE } from "../../../src/secrets/sds/secret_resource.ts";
import type { PlainMessage } from "../../../src/wire/mod.ts";
import type {
  OfferedResource,
  ProtocolOptions,
  ResourceHost,
  XdsClient,
  XdsResource,
} from "../../../src/xds/mod.ts";
import { FakeClock } from "../clock/clock.ts";

export const XDS_CLIENT: XdsClient = {
  node: { id: "web-1", cluster: "web", metadata: {} },
  version: "0.1.0",
};

export class ProtocolHarness<Request> implements ResourceHost<PlainMessage> {
  readonly clock = new FakeClock();
  readonly sent: Request[] = [];
  /** `accept web 1`, `rejected web: reason`, `removed web`. */
  readonly calls: string[] = [];
  /** Reasons by name. */
  readonly refuse = new Map<string, string>();
  /** While it is pending, `accept` does not return. */
  hold: Promise<void> | undefined;

  get options(): ProtocolOptions<PlainMessage, Request> {
    return {
      type: SECRET_RESOURCE,
      client: XDS_CLIENT,
      send: (request: Request) => void this.sent.push(request),
      host: this,
      clock: this.clock,
      random: seededRandom(1),
    };
  }

  /** The requests since the last call. */
  take(): Request[] {
    return this.sent.splice(0);
  }

  async accept({ name, version }: OfferedResource<PlainMessage>): Promise<string | undefined> {
    await this.hold;
    this.calls.push(`accept ${name} ${version}`);
    return this.refuse.get(name);
  }

  rejected(name: string, reason: string): void {
    this.calls.push(`rejected ${name}: ${reason}`);
  }

  removed(name: string): void {
    this.calls.push(`removed ${name}`);
  }
}

/** A readable resource. */
export function xdsResource(
  name: string,
  version = "1",
  ttlMs?: number,
): XdsResource<PlainMessage> {
  const digest = `${name} ${version}`;
  const content = { kind: "resource", digest, read: () => ({ name }) } as const;
  return { name, version, ...(ttlMs !== undefined && { ttlMs }), content };
}
