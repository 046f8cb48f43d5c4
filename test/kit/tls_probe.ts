/**
 * A mesh client of the test's own: dials a sidecar's public listener with a leaf from the agent and
 * reports what the sidecar presents.
 *
 * @module
 */

import { connect } from "node:tls";
import type { Consul } from "./consul.ts";
import type { Place } from "./echo.ts";

export interface AgentLeaf {
  readonly SerialNumber: string;
  readonly CertPEM: string;
  readonly PrivateKeyPEM: string;
}

/** The leaf that the agent gives for `service` now. */
export async function readLeaf(agent: Consul, service: string): Promise<AgentLeaf> {
  return await agent.get<AgentLeaf>(`/v1/agent/connect/ca/leaf/${service}`);
}

/** Serial number, lower-case hex without zeros in front, of the leaf that a sidecar presents. */
export async function presentedSerial(
  place: Place,
  options: { readonly agent: Consul; readonly as: string },
): Promise<string> {
  const leaf = await readLeaf(options.agent, options.as);
  return await new Promise((resolve, reject) => {
    const socket = connect({
      host: place.host,
      port: place.port,
      cert: leaf.CertPEM,
      key: leaf.PrivateKeyPEM,
      // Only looked at, never trusted: the story compares it with what the agent issued.
      rejectUnauthorized: false,
    }, () => {
      const { serialNumber } = socket.getPeerCertificate();
      socket.destroy();
      resolve(plainSerial(serialNumber));
    });
    socket.setTimeout(5_000, () => socket.destroy(new Error("No handshake within 5 s")));
    socket.on("error", reject);
  });
}

/** `09` and `9`, `0A:FF` and `aff` are the same number. */
export function plainSerial(text: string): string {
  return text.toLowerCase().replace(/[^0-9a-f]/g, "").replace(/^0+/, "");
}
