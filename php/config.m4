PHP_ARG_WITH([scrubjay],
  [for the client of scrubjay],
  [AS_HELP_STRING([--with-scrubjay=DIR], [DIR holds scrubjay.h])])

if test "$PHP_SCRUBJAY" != "no"; then
  if test ! -r "$PHP_SCRUBJAY/scrubjay.h"; then
    AC_MSG_ERROR([there is no scrubjay.h in $PHP_SCRUBJAY; give --with-scrubjay=DIR, crates/capi/include in the source tree])
  fi
  PHP_ADD_INCLUDE([$PHP_SCRUBJAY])
  PHP_SUBST(SCRUBJAY_SHARED_LIBADD)
  dnl What the library brings stays inside, and threads of its own outlive no code.
  LDFLAGS="$LDFLAGS -Wl,--exclude-libs,ALL -Wl,-z,nodelete"
  PHP_NEW_EXTENSION([scrubjay],
    [src/module.c src/class.c src/constants.c src/keys.c src/client.c src/options.c src/result.c src/zval.c src/stream.c src/many.c src/get.c src/lease.c src/store.c src/servers.c src/functions.c src/session.c],
    [$ext_shared],, [-Wall -Wextra -Wno-unused-parameter])
  PHP_ADD_EXTENSION_DEP(scrubjay, session, true)
  PHP_ADD_EXTENSION_DEP(scrubjay, json)
  PHP_ADD_BUILD_DIR([$ext_builddir/src])
fi
