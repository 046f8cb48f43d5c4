/**
 * The caller of the requests of one connection, for the application and the access log.
 *
 * @module
 */

import type { DownstreamFacts } from "../../http/mod.ts";
import type { Connection as ConnectionValue } from "../../plugin/mod.ts";
import { connectionValue } from "../caller/admit.ts";
import type { Session } from "../caller/session.ts";

export class DownstreamInfo implements DownstreamFacts {
  readonly #session: Session;
  #clientCert: string | undefined;
  #value: ConnectionValue | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  get id(): number {
    return this.#session.record.id;
  }

  get remote(): string {
    return this.#session.record.remote;
  }

  get local(): string {
    return this.#session.caller.local;
  }

  get requestedServerName(): string {
    return this.#session.record.serverName;
  }

  get tlsVersion(): string {
    return this.#session.caller.presented?.version ?? "";
  }

  get isSecure(): boolean {
    return this.#session.caller.presented !== undefined;
  }

  get peer(): DownstreamFacts["peer"] {
    const { peer, presented } = this.#session.caller;
    return peer && { uri: peer.uri, serial: peer.serial, leaf: presented?.leaf };
  }

  get localUri(): string {
    return this.#session.caller.ownUris[0] ?? "";
  }

  /** The element of `X-Forwarded-Client-Cert`, made once; `""`: the caller showed no certificate. */
  get clientCert(): string {
    return this.#clientCert ??= this.#makeClientCert();
  }

  /** The connection as plugins see it. */
  get value(): ConnectionValue {
    return this.#value ??= connectionValue(this.#session);
  }

  #makeClientCert(): string {
    const { context, caller: { peer, presented, ownUris } } = this.#session;
    const leaf = presented?.leaf;
    if (!leaf || !peer?.verified) return "";
    const chain = () => presented.chain().filter((der) => der !== leaf);
    return context.clientCerts.of(leaf, { by: ownUris, serial: peer.serial, chain });
  }
}
