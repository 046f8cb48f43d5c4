/** Stands between a client that others have written and where it shall really go. @module */

import type { Socket } from "node:net";
import { startServer, type TestServer } from "../wire/echo.ts";

/** Joins each connection to one of its own that `onward` opens. */
export function startPipe(onward: () => Socket): Promise<TestServer> {
  return startServer((socket) => {
    const other = onward();
    for (const [from, to] of [[socket, other], [other, socket]] as [Socket, Socket][]) {
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
    }
  });
}
