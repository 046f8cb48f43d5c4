/**
 * A TLS server that answers each client with the serial number of the certificate it showed.
 *
 * @module
 */

import { X509Certificate } from "node:crypto";
import { connect } from "node:net";
import type { Authority, IssuedLeaf } from "../../kit/certs/authority.ts";
import { type Listener, runtimeEngine } from "../../../src/net/mod.ts";
import type { Place } from "../../kit/wire/echo.ts";
import { plainSerial } from "../../kit/wire/tls_probe.ts";

export class SerialServer {
  readonly port: number;
  readonly #listener: Listener;

  private constructor(listener: Listener) {
    this.#listener = listener;
    this.port = listener.address.kind === "tcp" ? listener.address.port : 0;
  }

  static async start(
    host: string,
    { certPem, keyPem }: IssuedLeaf,
    authority: Authority,
  ): Promise<SerialServer> {
    const engine = runtimeEngine();
    const tls = engine.serverTls({
      certPem,
      keyPem,
      rootPems: [authority.rootPem],
      peerCheck: "checked",
      minVersion: "TLSv1.2",
      maxVersion: "TLSv1.3",
      cipherSuites: [],
    });
    const options = { address: { kind: "tcp", host, port: 0 }, reusePort: false } as const;
    const listener = await engine.listenSecure(
      options,
      (accepted) =>
        accepted.secure(tls, (outcome) => {
          if (outcome.kind === "failed") return;
          const { connection, peer } = outcome;
          const serial = peer.leaf ? new X509Certificate(peer.leaf).serialNumber : "none";
          connection.write(new TextEncoder().encode(`${plainSerial(serial)}\n`));
          connection.end();
        }),
    );
    return new SerialServer(listener);
  }

  close(): void {
    this.#listener.close();
  }
}

/** The serial that a {@link SerialServer} behind a plain listener answers. */
export function shownSerial(place: Place): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(place);
    socket.setTimeout(5_000, () => socket.destroy(new Error("No serial within 5 s")));
    socket.setEncoding("utf8").on("data", (chunk: string) => text += chunk);
    socket.on("error", reject);
    socket.on("close", () => {
      if (text.endsWith("\n")) resolve(text.trim());
      else reject(new Error("Closed without a serial"));
    });
  });
}
