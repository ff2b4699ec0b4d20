"""Alembic runs this file. The connection and its transaction come from `schema.upgrade`."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
