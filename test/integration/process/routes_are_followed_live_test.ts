import { DevMesh } from "../../kit/dev_mesh.ts";
import { routes } from "../../stories/routes.ts";

routes(DevMesh);
