import { CONSUL } from "../kit/mesh/consul.ts";
import { tracing } from "../stories/tracing.ts";

tracing(CONSUL);
