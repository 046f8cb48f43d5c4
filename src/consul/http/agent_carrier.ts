/**
 * The way to an agent: one address, for good.
 *
 * @module
 */

import type { Address, Clock } from "../../base/mod.ts";
import type { Carrier, WireReply, WireRequest } from "./carrier.ts";
import { readTlsFiles, type TlsFiles } from "./files.ts";
import { Transport } from "./transport.ts";

export interface AgentAddress {
  readonly address: Address;
  readonly tls: TlsFiles | null;
}

export class AgentCarrier implements Carrier {
  readonly peer = "agent";
  readonly #place: AgentAddress;
  readonly #clock: Clock;
  #transport: Transport;

  /** Fails with `config_invalid` where files cannot be used. */
  constructor(place: AgentAddress, clock: Clock) {
    this.#place = place;
    this.#clock = clock;
    this.#transport = this.#createTransport();
  }

  get where(): string {
    return this.#transport.where;
  }

  send(request: WireRequest): Promise<WireReply> {
    return this.#transport.send(request);
  }

  dropIdle(): void {
    this.#transport.dropIdle();
  }

  reloadFiles(): void {
    if (!this.#place.tls) return;
    const before = this.#transport;
    this.#transport = this.#createTransport();
    before.retire();
  }

  close(): void {
    this.#transport.close();
  }

  #createTransport(): Transport {
    const { address, tls } = this.#place;
    return new Transport({ address, tls: tls ? readTlsFiles(tls) : null, clock: this.#clock });
  }
}
