/**
 * A caller of a data path in memory that proves to be a service, and the application that it reaches.
 *
 * @module
 */

import type { Authority } from "../certs/authority.ts";
import { settle } from "../clock/clock.ts";
import { presented } from "./fake_tls_engine.ts";
import type { End } from "./memory_engine.ts";
import type { MemoryPath } from "./memory_path.ts";

/** At the first listener there is. */
export function callAs(service: string, { path, engine }: MemoryPath, ca: Authority): End {
  const port = Number(path.listeners()[0]?.address.split(":").at(-1));
  return engine.callSecurely(port).prove(presented(ca.issueLeaf({ service })));
}

/** Sends what makes the path dial the application; the application's end. */
export async function sendThrough(caller: End, text: string, { engine }: MemoryPath): Promise<End> {
  caller.send(text);
  await settle();
  const app = engine.lastDial.connect();
  await settle();
  return app;
}
