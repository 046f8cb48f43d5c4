/** An engine that only makes TLS settings: it records its arguments. @module */

import type {
  ClientTls,
  Engine,
  PresentedPeer,
  ServerTls,
  TlsMaterial,
} from "../../../src/net/mod.ts";

export interface MadeServer extends ServerTls {
  readonly material: TlsMaterial;
}

export interface MadeClient extends ClientTls {
  readonly material: TlsMaterial;
  readonly serverName: string;
}

export class FakeTlsEngine {
  readonly servers: MadeServer[] = [];
  readonly clients: MadeClient[] = [];

  /** As the data path knows it. */
  get engine(): Engine {
    return this as unknown as Engine;
  }

  serverTls(material: TlsMaterial): ServerTls {
    const made: MadeServer = { kind: "server", material };
    this.servers.push(made);
    return made;
  }

  tlsFault({ keyPem }: TlsMaterial): string | undefined {
    return keyPem === "refused" ? "refused" : undefined;
  }

  clientTls(material: TlsMaterial, { serverName }: { readonly serverName: string }): ClientTls {
    const made: MadeClient = { kind: "client", material, serverName };
    this.clients.push(made);
    return made;
  }
}

/** A peer as its handshake leaves it. */
export function presented(
  leaf: { readonly certDer: Uint8Array; readonly chainDer: readonly Uint8Array[] } | undefined,
  overrides: Partial<PresentedPeer> = {},
): PresentedPeer {
  return {
    accepted: true,
    reason: "",
    leaf: leaf?.certDer,
    chain: () => leaf?.chainDer ?? [],
    version: "TLSv1.3",
    protocol: "",
    serverName: "",
    resumed: false,
    ...overrides,
  };
}
