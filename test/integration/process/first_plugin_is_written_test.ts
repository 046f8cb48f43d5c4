import { test } from "node:test";
import { walkFirstPlugin } from "../../kit/plugins/first_plugin.ts";
import { OWN_ENGINE, posternCommand } from "../../kit/process/postern.ts";

test("a first plugin is written as the page says", () =>
  walkFirstPlugin(posternCommand(OWN_ENGINE)));
