import { CONSUL } from "../kit/mesh/consul.ts";
import { workers } from "../stories/workers.ts";

workers(CONSUL);
