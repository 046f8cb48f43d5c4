/**
 * Who sends the requests of one connection: what the application is told of them, and the access log.
 *
 * @module
 */

import type { DownstreamFacts } from "../../http/mod.ts";
import type { Connection } from "../../net/mod.ts";
import type { Connection as ConnectionValue } from "../../plugin/mod.ts";
import { connectionValue } from "../caller/connection_hooks.ts";
import type { Downstream } from "../caller/downstream.ts";

export class DownstreamInfo implements DownstreamFacts {
  connection: Connection | undefined;
  readonly #downstream: Downstream;
  #clientCert: string | undefined;
  #value: ConnectionValue | undefined;

  constructor(downstream: Downstream) {
    this.#downstream = downstream;
  }

  get id(): number {
    return this.#downstream.record.id;
  }

  get remote(): string {
    return this.#downstream.record.remote;
  }

  get local(): string {
    return this.connection?.local ?? "";
  }

  get requestedServerName(): string {
    return this.#downstream.record.serverName;
  }

  get tlsVersion(): string {
    return this.#downstream.presented?.version ?? "";
  }

  get isSecure(): boolean {
    return this.#downstream.presented !== undefined;
  }

  get peer(): DownstreamFacts["peer"] {
    const { peer, presented } = this.#downstream;
    return peer && { uri: peer.uri, serial: peer.serial, leaf: presented?.leaf };
  }

  get localUri(): string {
    return this.#downstream.ownUris[0] ?? "";
  }

  /** Of `X-Forwarded-Client-Cert`, made once; `""`: it has proven nothing. */
  get clientCert(): string {
    return this.#clientCert ??= this.#makeClientCert();
  }

  /** As plugins see it. */
  get value(): ConnectionValue {
    return this.#value ??= connectionValue(this.#downstream);
  }

  #makeClientCert(): string {
    const { peer, presented, ownUris, context } = this.#downstream;
    const leaf = presented?.leaf;
    if (!leaf || !peer?.verified) return "";
    const chain = () => presented.chain().filter((der) => der !== leaf);
    return context.clientCerts.of(leaf, { by: ownUris, serial: peer.serial, chain });
  }
}
