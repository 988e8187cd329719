from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
name = 'kernels.py.jinja'

def root(context, missing=missing):
    resolve = context.resolve_or_missing
    undefined = environment.undefined
    concat = environment.concat
    cond_expr_undefined = Undefined
    if 0: yield None
    l_0_kernels = resolve('kernels')
    l_0_differentiable = l_0_parameters = l_0_locate = l_0_advance = l_0_tile = l_0_vector = l_0_real = l_0_load_scalars = l_0_load_rows = l_0_load_columns = l_0_pair = missing
    try:
        t_1 = environment.filters['join']
    except KeyError:
        @internalcode
        def t_1(*unused):
            raise TemplateRuntimeError("No filter named 'join' found.")
    try:
        t_2 = environment.filters['length']
    except KeyError:
        @internalcode
        def t_2(*unused):
            raise TemplateRuntimeError("No filter named 'length' found.")
    try:
        t_3 = environment.filters['list']
    except KeyError:
        @internalcode
        def t_3(*unused):
            raise TemplateRuntimeError("No filter named 'list' found.")
    try:
        t_4 = environment.filters['map']
    except KeyError:
        @internalcode
        def t_4(*unused):
            raise TemplateRuntimeError("No filter named 'map' found.")
    try:
        t_5 = environment.filters['wordwrap']
    except KeyError:
        @internalcode
        def t_5(*unused):
            raise TemplateRuntimeError("No filter named 'wordwrap' found.")
    pass
    included_template = environment.get_template('differentiable.jinja', 'kernels.py.jinja')._get_default_module(context)
    l_0_differentiable = getattr(included_template, 'differentiable', missing)
    if l_0_differentiable is missing:
        l_0_differentiable = undefined(f"the template {included_template.__name__!r} (imported on line 2 in 'kernels.py.jinja') does not export the requested name 'differentiable'", name='differentiable')
    context.vars['differentiable'] = l_0_differentiable
    context.exported_vars.discard('differentiable')
    def macro(l_1_k, l_1_outputs, l_1_extra):
        t_6 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        if l_1_outputs is missing:
            l_1_outputs = undefined("parameter 'outputs' was not provided", name='outputs')
        if l_1_extra is missing:
            l_1_extra = undefined("parameter 'extra' was not provided", name='extra')
        pass
        t_6.extend((
            '    ',
            str(t_5(environment, t_1(context.eval_ctx, ((t_3(context.eval_ctx, t_4(context, environment.getattr(l_1_k, 'inputs'), attribute='name')) + t_3(context.eval_ctx, t_4(context, l_1_extra, attribute='name'))) + l_1_outputs), ', '), 115, wrapstring='\n    ')),
            ',\n',
        ))
        for l_2_t in (environment.getattr(l_1_k, 'inputs') + l_1_extra):
            _loop_vars = {}
            pass
            t_6.extend((
                '    ',
                str(t_1(context.eval_ctx, (environment.getattr(l_2_t, 'strides') + ([environment.getattr(l_2_t, 'count')] if environment.getattr(l_2_t, 'count') else [])), ', ')),
                ',\n',
            ))
        l_2_t = missing
        t_6.append(
            '    heads,\n    row_count,\n    column_count,\n    offset,\n    first,\n',
        )
        for l_2_n in environment.getattr(l_1_k, 'numbers'):
            _loop_vars = {}
            pass
            t_6.extend((
                '    ',
                str(l_2_n),
                ': tl.constexpr,\n',
            ))
        l_2_n = missing
        for l_2_w in environment.getattr(l_1_k, 'widths'):
            _loop_vars = {}
            pass
            t_6.extend((
                '    ',
                str(environment.getattr(l_2_w, 'size')),
                ': tl.constexpr,\n    ',
                str(environment.getattr(l_2_w, 'padded')),
                ': tl.constexpr,\n',
            ))
        l_2_w = missing
        if environment.getattr(l_1_k, 'whole_numbers'):
            pass
            t_6.append(
                '    POSITION: tl.constexpr,\n',
            )
        t_6.append(
            '    ACC: tl.constexpr,\n    PRECISION: tl.constexpr,\n    ROWS: tl.constexpr,\n    COLUMNS: tl.constexpr,\n',
        )
        return concat(t_6)
    context.exported_vars.add('parameters')
    context.vars['parameters'] = l_0_parameters = Macro(environment, macro, 'parameters', ('k', 'outputs', 'extra'), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_k, l_1_size, l_1_count):
        t_7 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        if l_1_size is missing:
            l_1_size = undefined("parameter 'size' was not provided", name='size')
        if l_1_count is missing:
            l_1_count = undefined("parameter 'count' was not provided", name='count')
        pass
        t_7.extend((
            '    blocks = tl.cdiv(',
            str(l_1_count),
            ', ',
            str(l_1_size),
            ')\n    block = ',
            str((str_join(('(blocks - 1 - tl.program_id(0) % blocks)', environment.getattr(l_1_k, 'widened'), )) if environment.getattr(l_1_k, 'widened') else 'blocks - 1 - tl.program_id(0) % blocks')),
            '  # the longest ones first\n    place = (tl.program_id(0) // blocks).to(tl.int64)\n',
        ))
        return concat(t_7)
    context.exported_vars.add('locate')
    context.vars['locate'] = l_0_locate = Macro(environment, macro, 'locate', ('k', 'size', 'count'), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_inputs):
        t_8 = []
        if l_1_inputs is missing:
            l_1_inputs = undefined("parameter 'inputs' was not provided", name='inputs')
        pass
        if l_1_inputs:
            pass
            t_8.append(
                '    batch, head = place // heads, place % heads\n',
            )
        for l_2_t in l_1_inputs:
            _loop_vars = {}
            pass
            t_8.extend((
                '    ',
                str(environment.getattr(l_2_t, 'name')),
                ' += batch * ',
                str(environment.getitem(environment.getattr(l_2_t, 'strides'), 0)),
                ' + head * ',
                str(environment.getitem(environment.getattr(l_2_t, 'strides'), 1)),
                '\n',
            ))
        l_2_t = missing
        return concat(t_8)
    context.exported_vars.add('advance')
    context.vars['advance'] = l_0_advance = Macro(environment, macro, 'advance', ('inputs',), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_t, l_1_tokens, l_1_count):
        t_9 = []
        if l_1_t is missing:
            l_1_t = undefined("parameter 't' was not provided", name='t')
        if l_1_tokens is missing:
            l_1_tokens = undefined("parameter 'tokens' was not provided", name='tokens')
        if l_1_count is missing:
            l_1_count = undefined("parameter 'count' was not provided", name='count')
        pass
        t_9.extend((
            '_tile(',
            str(environment.getattr(l_1_t, 'name')),
            ', ',
            str(l_1_tokens),
            ', ',
            str(environment.getitem(environment.getattr(l_1_t, 'strides'), 2)),
            ', ',
            str(l_1_count),
            ', ',
            str(environment.getitem(environment.getattr(l_1_t, 'strides'), 3)),
            ', ',
            str(environment.getattr(environment.getattr(l_1_t, 'width'), 'size')),
            ', ',
            str(environment.getattr(environment.getattr(l_1_t, 'width'), 'padded')),
            ')',
        ))
        return concat(t_9)
    context.exported_vars.add('tile')
    context.vars['tile'] = l_0_tile = Macro(environment, macro, 'tile', ('t', 'tokens', 'count'), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_t, l_1_tokens, l_1_count):
        t_10 = []
        if l_1_t is missing:
            l_1_t = undefined("parameter 't' was not provided", name='t')
        if l_1_tokens is missing:
            l_1_tokens = undefined("parameter 'tokens' was not provided", name='tokens')
        if l_1_count is missing:
            l_1_count = undefined("parameter 'count' was not provided", name='count')
        pass
        t_10.extend((
            '_vector(',
            str(environment.getattr(l_1_t, 'name')),
            ', ',
            str(l_1_tokens),
            ', ',
            str(environment.getitem(environment.getattr(l_1_t, 'strides'), 2)),
            ', ',
            str(l_1_count),
            ')',
        ))
        return concat(t_10)
    context.exported_vars.add('vector')
    context.vars['vector'] = l_0_vector = Macro(environment, macro, 'vector', ('t', 'tokens', 'count'), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_t):
        t_11 = []
        if l_1_t is missing:
            l_1_t = undefined("parameter 't' was not provided", name='t')
        pass
        t_11.append(
            str(('' if environment.getattr(l_1_t, 'integer') else '.to(ACC)')),
        )
        return concat(t_11)
    context.exported_vars.add('real')
    context.vars['real'] = l_0_real = Macro(environment, macro, 'real', ('t',), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_k):
        t_12 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        pass
        for l_2_t in environment.getattr(l_1_k, 'scalars'):
            _loop_vars = {}
            pass
            t_12.extend((
                '    ',
                str(environment.getattr(l_2_t, 'local')),
                ' = tl.load(',
                str(environment.getattr(l_2_t, 'name')),
                ')',
                str(context.call((undefined(name='real') if l_0_real is missing else l_0_real), l_2_t, _loop_vars=_loop_vars)),
                '\n',
            ))
        l_2_t = missing
        return concat(t_12)
    context.exported_vars.add('load_scalars')
    context.vars['load_scalars'] = l_0_load_scalars = Macro(environment, macro, 'load_scalars', ('k',), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_k, l_1_indent):
        t_13 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        if l_1_indent is missing:
            l_1_indent = undefined("parameter 'indent' was not provided", name='indent')
        pass
        for l_2_t in environment.getattr(l_1_k, 'queries'):
            _loop_vars = {}
            pass
            t_13.extend((
                str(l_1_indent),
                str(environment.getattr(l_2_t, 'local')),
                ' = ',
                str(context.call((undefined(name='tile') if l_0_tile is missing else l_0_tile), l_2_t, 'row', 'row_count', _loop_vars=_loop_vars)),
                '\n',
            ))
            if (l_2_t in environment.getattr(l_1_k, 'squares')):
                pass
                t_13.extend((
                    str(l_1_indent),
                    str(environment.getattr(l_2_t, 'local')),
                    '_square = tl.sum(',
                    str(environment.getattr(l_2_t, 'local')),
                    '.to(ACC) * ',
                    str(environment.getattr(l_2_t, 'local')),
                    '.to(ACC), 1)[:, None]\n',
                ))
        l_2_t = missing
        for l_2_t in environment.getattr(l_1_k, 'rows'):
            _loop_vars = {}
            pass
            t_13.extend((
                str(l_1_indent),
                str(environment.getattr(l_2_t, 'local')),
                ' = ',
                str(context.call((undefined(name='vector') if l_0_vector is missing else l_0_vector), l_2_t, 'row', 'row_count', _loop_vars=_loop_vars)),
                str(context.call((undefined(name='real') if l_0_real is missing else l_0_real), l_2_t, _loop_vars=_loop_vars)),
                '[:, None]\n',
            ))
        l_2_t = missing
        return concat(t_13)
    context.exported_vars.add('load_rows')
    context.vars['load_rows'] = l_0_load_rows = Macro(environment, macro, 'load_rows', ('k', 'indent'), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_k, l_1_indent):
        t_14 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        if l_1_indent is missing:
            l_1_indent = undefined("parameter 'indent' was not provided", name='indent')
        pass
        for l_2_t in environment.getattr(l_1_k, 'keys'):
            _loop_vars = {}
            pass
            t_14.extend((
                str(l_1_indent),
                str(environment.getattr(l_2_t, 'local')),
                ' = ',
                str(context.call((undefined(name='tile') if l_0_tile is missing else l_0_tile), l_2_t, 'column', 'column_count', _loop_vars=_loop_vars)),
                '\n',
            ))
            if (l_2_t in environment.getattr(l_1_k, 'squares')):
                pass
                t_14.extend((
                    str(l_1_indent),
                    str(environment.getattr(l_2_t, 'local')),
                    '_square = tl.sum(',
                    str(environment.getattr(l_2_t, 'local')),
                    '.to(ACC) * ',
                    str(environment.getattr(l_2_t, 'local')),
                    '.to(ACC), 1)[None, :]\n',
                ))
        l_2_t = missing
        for l_2_t in environment.getattr(l_1_k, 'columns'):
            _loop_vars = {}
            pass
            t_14.extend((
                str(l_1_indent),
                str(environment.getattr(l_2_t, 'local')),
                ' = ',
                str(context.call((undefined(name='vector') if l_0_vector is missing else l_0_vector), l_2_t, 'column', 'column_count', _loop_vars=_loop_vars)),
                str(context.call((undefined(name='real') if l_0_real is missing else l_0_real), l_2_t, _loop_vars=_loop_vars)),
                '[None, :]\n',
            ))
        l_2_t = missing
        return concat(t_14)
    context.exported_vars.add('load_columns')
    context.vars['load_columns'] = l_0_load_columns = Macro(environment, macro, 'load_columns', ('k', 'indent'), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_k, l_1_indent):
        t_15 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        if l_1_indent is missing:
            l_1_indent = undefined("parameter 'indent' was not provided", name='indent')
        pass
        for l_2_d in environment.getattr(l_1_k, 'dots'):
            _loop_vars = {}
            pass
            t_15.extend((
                str(l_1_indent),
                str(environment.getattr(l_2_d, 'local')),
                ' = tl.dot(',
                str(environment.getattr(environment.getattr(l_2_d, 'query'), 'local')),
                ', tl.trans(',
                str(environment.getattr(environment.getattr(l_2_d, 'key'), 'local')),
                '), input_precision=PRECISION, out_dtype=ACC)\n',
            ))
        l_2_d = missing
        for l_2_t in environment.getattr(l_1_k, 'tables'):
            _loop_vars = {}
            pass
            t_15.extend((
                str(l_1_indent),
                str(environment.getattr(l_2_t, 'local')),
                '_at = ',
                str(environment.getattr(l_2_t, 'offset')),
                '\n',
                str(l_1_indent),
                str(environment.getattr(l_2_t, 'local')),
                ' = _looked_up(',
                str(environment.getattr(l_2_t, 'name')),
                ', ',
                str(environment.getattr(l_2_t, 'local')),
                '_at, ',
                str(environment.getitem(environment.getattr(l_2_t, 'strides'), 2)),
                ', ',
                str(environment.getattr(l_2_t, 'count')),
                ')',
                str(context.call((undefined(name='real') if l_0_real is missing else l_0_real), l_2_t, _loop_vars=_loop_vars)),
                '\n',
            ))
        l_2_t = missing
        return concat(t_15)
    context.exported_vars.add('pair')
    context.vars['pair'] = l_0_pair = Macro(environment, macro, 'pair', ('k', 'indent'), False, False, False, context.eval_ctx.autoescape)
    yield '\n\n'
    for l_1_k in (undefined(name='kernels') if l_0_kernels is missing else l_0_kernels):
        _loop_vars = {}
        pass
        yield '# '
        yield str(('-' * (115 - t_2(environment.getattr(l_1_k, 'title')))))
        yield ' '
        yield str(environment.getattr(l_1_k, 'title'))
        yield '\n\n\n@triton.jit\ndef '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_forward(\n'
        yield str(context.call((undefined(name='parameters') if l_0_parameters is missing else l_0_parameters), l_1_k, environment.getattr(l_1_k, 'outputs'), [], _loop_vars=_loop_vars))
        yield '):  # fmt: skip\n    """'
        yield str(environment.getattr(l_1_k, 'summary'))
        yield '"""\n'
        yield str(context.call((undefined(name='locate') if l_0_locate is missing else l_0_locate), l_1_k, 'ROWS', 'row_count', _loop_vars=_loop_vars))
        yield '    row = block * ROWS + tl.arange(0, ROWS)\n'
        if environment.getattr(l_1_k, 'uses_i'):
            pass
            yield '    i = (first + offset + row)'
            yield str(environment.getattr(l_1_k, 'widened'))
            yield '[:, None]\n'
        yield str(context.call((undefined(name='advance') if l_0_advance is missing else l_0_advance), (environment.getattr(environment.getattr(environment.getattr(l_1_k, 'forward'), 'loads'), 'inputs') + environment.getattr(l_1_k, 'sinks')), _loop_vars=_loop_vars))
        yield str(context.call((undefined(name='load_scalars') if l_0_load_scalars is missing else l_0_load_scalars), environment.getattr(environment.getattr(l_1_k, 'forward'), 'loads'), _loop_vars=_loop_vars))
        yield str(context.call((undefined(name='load_rows') if l_0_load_rows is missing else l_0_load_rows), environment.getattr(environment.getattr(l_1_k, 'forward'), 'loads'), '    ', _loop_vars=_loop_vars))
        if environment.getattr(l_1_k, 'score'):
            pass
            for l_2_t in environment.getattr(l_1_k, 'sinks'):
                _loop_vars = {}
                pass
                yield '    '
                yield str(environment.getattr(l_2_t, 'local'))
                yield ' = '
                yield str(context.call((undefined(name='vector') if l_0_vector is missing else l_0_vector), l_2_t, 'row', 'row_count', _loop_vars=_loop_vars))
                yield '.to(ACC) * LOG2E\n'
            l_2_t = missing
            if environment.getattr(l_1_k, 'sinks'):
                pass
                yield '    largest = '
                yield str(environment.getattr(environment.getitem(environment.getattr(l_1_k, 'sinks'), 0), 'local'))
                yield '\n    total = tl.full((ROWS,), 1.0, ACC)\n'
                for l_2_t in environment.getattr(l_1_k, 'sinks')[1:]:
                    _loop_vars = {}
                    pass
                    yield '    larger = tl.maximum(largest, '
                    yield str(environment.getattr(l_2_t, 'local'))
                    yield ')\n    total = total * tl.exp2(largest - larger) + tl.exp2('
                    yield str(environment.getattr(l_2_t, 'local'))
                    yield ' - larger)\n    largest = larger\n'
                l_2_t = missing
            else:
                pass
                yield '    largest = tl.full((ROWS,), float("-inf"), ACC)\n    total = tl.zeros((ROWS,), ACC)\n'
        for l_2_s in environment.getattr(l_1_k, 'sums'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(environment.getattr(l_2_s, 'local'))
            yield ' = tl.zeros(('
            yield str((str_join(('ROWS, ', environment.getattr(environment.getattr(environment.getattr(l_2_s, 'key'), 'width'), 'padded'), )) if environment.getattr(l_2_s, 'key') else 'ROWS,'))
            yield '), ACC)\n'
        l_2_s = missing
        for l_2_line in environment.getattr(l_1_k, 'column_range'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        yield '    for start in range('
        yield str(environment.getattr(l_1_k, 'column_start'))
        yield ', '
        yield str(environment.getattr(l_1_k, 'column_stop'))
        yield ', COLUMNS):\n        column = start + tl.arange(0, COLUMNS)\n'
        if environment.getattr(l_1_k, 'uses_j'):
            pass
            yield '        j = (first + column)'
            yield str(environment.getattr(l_1_k, 'widened'))
            yield '[None, :]\n'
        yield str(context.call((undefined(name='load_columns') if l_0_load_columns is missing else l_0_load_columns), environment.getattr(environment.getattr(l_1_k, 'forward'), 'loads'), '        ', _loop_vars=_loop_vars))
        yield str(context.call((undefined(name='pair') if l_0_pair is missing else l_0_pair), environment.getattr(environment.getattr(l_1_k, 'forward'), 'loads'), '        ', _loop_vars=_loop_vars))
        yield '        inside = (column < column_count)[None, :]\n'
        for l_2_line in environment.getattr(environment.getattr(l_1_k, 'forward'), 'mask'):
            _loop_vars = {}
            pass
            yield '        '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        if environment.getattr(l_1_k, 'score'):
            pass
            for l_2_line in environment.getattr(environment.getattr(l_1_k, 'forward'), 'score'):
                _loop_vars = {}
                pass
                yield '        '
                yield str(l_2_line)
                yield '\n'
            l_2_line = missing
            yield '        score = tl.where(inside, score * LOG2E, float("-inf"))\n        larger = tl.maximum(largest, tl.max(score, 1))\n        finite = tl.where(larger == float("-inf"), 0.0, larger)\n        shrink = tl.exp2(largest - finite)\n        p = tl.exp2(score - finite[:, None])\n        total = total * shrink + tl.sum(p, 1)\n        largest = larger\n'
        for l_2_line in environment.getattr(environment.getattr(l_1_k, 'forward'), 'weights'):
            _loop_vars = {}
            pass
            yield '        '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        for l_2_s in environment.getattr(l_1_k, 'sums'):
            l_2_weight = l_2_old = missing
            _loop_vars = {}
            pass
            l_2_weight = (environment.getattr(l_2_s, 'weight') if environment.getattr(l_2_s, 'bare') else str_join(('tl.where(inside, ', environment.getattr(l_2_s, 'weight'), ', 0.0)', )))
            _loop_vars['weight'] = l_2_weight
            l_2_old = (str_join((environment.getattr(l_2_s, 'local'), (' * shrink[:, None]' if environment.getattr(l_2_s, 'key') else ' * shrink'), )) if environment.getattr(l_2_s, 'softmax') else environment.getattr(l_2_s, 'local'))
            _loop_vars['old'] = l_2_old
            if environment.getattr(l_2_s, 'key'):
                pass
                yield '        '
                yield str(environment.getattr(l_2_s, 'local'))
                yield ' = '
                yield str((undefined(name='old') if l_2_old is missing else l_2_old))
                yield ' + tl.dot('
                yield str((undefined(name='weight') if l_2_weight is missing else l_2_weight))
                yield '.to('
                yield str(environment.getattr(environment.getattr(l_2_s, 'key'), 'local'))
                yield '.dtype), '
                yield str(environment.getattr(environment.getattr(l_2_s, 'key'), 'local'))
                yield ', input_precision=PRECISION, out_dtype=ACC)\n'
            else:
                pass
                yield '        '
                yield str(environment.getattr(l_2_s, 'local'))
                yield ' = '
                yield str((undefined(name='old') if l_2_old is missing else l_2_old))
                yield ' + tl.sum('
                yield str((undefined(name='weight') if l_2_weight is missing else l_2_weight))
                yield ', 1)\n'
        l_2_s = l_2_weight = l_2_old = missing
        if environment.getattr(l_1_k, 'score'):
            pass
            yield '    some = total > 0\n    total = tl.where(some, total, 1.0)\n'
        for l_2_s in environment.getattr(l_1_k, 'sums'):
            l_2_value = missing
            _loop_vars = {}
            pass
            l_2_value = (str_join((environment.getattr(l_2_s, 'local'), (' / total[:, None]' if environment.getattr(l_2_s, 'key') else ' / total'), )) if environment.getattr(l_2_s, 'softmax') else environment.getattr(l_2_s, 'local'))
            _loop_vars['value'] = l_2_value
            if environment.getattr(l_2_s, 'key'):
                pass
                yield '    _store_tile('
                yield str(environment.getattr(l_2_s, 'output'))
                yield ' + place * row_count * '
                yield str(environment.getattr(environment.getattr(environment.getattr(l_2_s, 'key'), 'width'), 'size'))
                yield ', '
                yield str((undefined(name='value') if l_2_value is missing else l_2_value))
                yield ', row, row_count, '
                yield str(environment.getattr(environment.getattr(environment.getattr(l_2_s, 'key'), 'width'), 'size'))
                yield ', '
                yield str(environment.getattr(environment.getattr(environment.getattr(l_2_s, 'key'), 'width'), 'padded'))
                yield ')\n'
            else:
                pass
                yield '    tl.store('
                yield str(environment.getattr(l_2_s, 'output'))
                yield ' + place * row_count + row, '
                yield str((undefined(name='value') if l_2_value is missing else l_2_value))
                yield ', mask=row < row_count)\n'
        l_2_s = l_2_value = missing
        if environment.getattr(l_1_k, 'score'):
            pass
            yield '    log_sum_exp = tl.where(some, largest / LOG2E + tl.log(total), '
            yield str(environment.getattr(l_1_k, 'empty'))
            yield ')\n    tl.store(log_sum_exp_out + place * row_count + row, log_sum_exp, mask=row < row_count)\n'
        for l_2_side in environment.getattr(l_1_k, 'sides'):
            _loop_vars = {}
            pass
            yield '\n\n@triton.jit\ndef '
            yield str(environment.getattr(l_2_side, 'called'))
            yield '(\n'
            yield str(context.call((undefined(name='parameters') if l_0_parameters is missing else l_0_parameters), l_1_k, environment.getattr(l_2_side, 'outputs'), environment.getattr(l_1_k, 'gradients'), _loop_vars=_loop_vars))
            yield '):  # fmt: skip\n    """'
            yield str(environment.getattr(l_2_side, 'summary'))
            yield '"""\n'
            if environment.getattr(l_2_side, 'table'):
                pass
                yield str(context.call((undefined(name='locate') if l_0_locate is missing else l_0_locate), l_1_k, 'ROWS', environment.getattr(environment.getattr(l_2_side, 'table'), 'count'), _loop_vars=_loop_vars))
                yield '    at = block * ROWS + tl.arange(0, ROWS)\n'
            elif environment.getattr(l_2_side, 'rows'):
                pass
                yield str(context.call((undefined(name='locate') if l_0_locate is missing else l_0_locate), l_1_k, 'ROWS', 'row_count', _loop_vars=_loop_vars))
                yield '    row = block * ROWS + tl.arange(0, ROWS)\n'
                if environment.getattr(l_1_k, 'uses_i'):
                    pass
                    yield '    i = (first + offset + row)'
                    yield str(environment.getattr(l_1_k, 'widened'))
                    yield '[:, None]\n'
            else:
                pass
                yield str(context.call((undefined(name='locate') if l_0_locate is missing else l_0_locate), l_1_k, 'COLUMNS', 'column_count', _loop_vars=_loop_vars))
                yield '    column = block * COLUMNS + tl.arange(0, COLUMNS)\n'
                if environment.getattr(l_1_k, 'uses_j'):
                    pass
                    yield '    j = (first + column)'
                    yield str(environment.getattr(l_1_k, 'widened'))
                    yield '[None, :]\n'
            yield str(context.call((undefined(name='advance') if l_0_advance is missing else l_0_advance), (environment.getattr(environment.getattr(l_2_side, 'loads'), 'inputs') + environment.getattr(environment.getattr(l_2_side, 'loads'), 'gradients')), _loop_vars=_loop_vars))
            yield str(context.call((undefined(name='load_scalars') if l_0_load_scalars is missing else l_0_load_scalars), environment.getattr(l_2_side, 'loads'), _loop_vars=_loop_vars))
            if environment.getattr(l_2_side, 'table'):
                pass
            elif environment.getattr(l_2_side, 'rows'):
                pass
                yield str(context.call((undefined(name='load_rows') if l_0_load_rows is missing else l_0_load_rows), environment.getattr(l_2_side, 'loads'), '    ', _loop_vars=_loop_vars))
                for l_3_t in environment.getattr(environment.getattr(l_2_side, 'loads'), 'gradients'):
                    _loop_vars = {}
                    pass
                    yield '    '
                    yield str(environment.getattr(l_3_t, 'local'))
                    yield ' = '
                    yield str((context.call((undefined(name='tile') if l_0_tile is missing else l_0_tile), l_3_t, 'row', 'row_count', _loop_vars=_loop_vars) if environment.getattr(l_3_t, 'width') else str_join((context.call((undefined(name='vector') if l_0_vector is missing else l_0_vector), l_3_t, 'row', 'row_count', _loop_vars=_loop_vars), '.to(ACC)[:, None]', ))))
                    yield '\n'
                l_3_t = missing
            else:
                pass
                yield str(context.call((undefined(name='load_columns') if l_0_load_columns is missing else l_0_load_columns), environment.getattr(l_2_side, 'loads'), '    ', _loop_vars=_loop_vars))
            for l_3_a in environment.getattr(l_2_side, 'accumulators'):
                _loop_vars = {}
                pass
                yield '    '
                yield str(environment.getattr(l_3_a, 'local'))
                yield ' = tl.zeros('
                yield str(environment.getattr(l_3_a, 'shape'))
                yield ', ACC)\n'
            l_3_a = missing
            for l_3_line in environment.getattr(l_2_side, 'range'):
                _loop_vars = {}
                pass
                yield '    '
                yield str(l_3_line)
                yield '\n'
            l_3_line = missing
            yield '    for start in range('
            yield str(environment.getattr(l_2_side, 'start'))
            yield ', '
            yield str(environment.getattr(l_2_side, 'stop'))
            yield ', '
            yield str(('COLUMNS' if (environment.getattr(l_2_side, 'rows') and (not environment.getattr(l_2_side, 'table'))) else 'ROWS'))
            yield '):\n'
            if environment.getattr(l_2_side, 'table'):
                pass
                yield '        row = start + tl.arange(0, ROWS)\n        i = (first + offset + row)'
                yield str(environment.getattr(l_1_k, 'widened'))
                yield '[:, None]\n        column = '
                yield str(environment.getattr(l_2_side, 'first'))
                yield ' + tl.arange(0, COLUMNS)\n        exists = (column >= 0)[None, :]\n        column = tl.maximum(column, 0)\n        j = (first + column)'
                yield str(environment.getattr(l_1_k, 'widened'))
                yield '[None, :]\n'
                yield str(context.call((undefined(name='load_rows') if l_0_load_rows is missing else l_0_load_rows), environment.getattr(l_2_side, 'loads'), '        ', _loop_vars=_loop_vars))
                yield str(context.call((undefined(name='load_columns') if l_0_load_columns is missing else l_0_load_columns), environment.getattr(l_2_side, 'loads'), '        ', _loop_vars=_loop_vars))
                for l_3_t in environment.getattr(environment.getattr(l_2_side, 'loads'), 'gradients'):
                    _loop_vars = {}
                    pass
                    yield '        '
                    yield str(environment.getattr(l_3_t, 'local'))
                    yield ' = '
                    yield str((context.call((undefined(name='tile') if l_0_tile is missing else l_0_tile), l_3_t, 'row', 'row_count', _loop_vars=_loop_vars) if environment.getattr(l_3_t, 'width') else str_join((context.call((undefined(name='vector') if l_0_vector is missing else l_0_vector), l_3_t, 'row', 'row_count', _loop_vars=_loop_vars), '.to(ACC)[:, None]', ))))
                    yield '\n'
                l_3_t = missing
            elif environment.getattr(l_2_side, 'rows'):
                pass
                yield '        column = start + tl.arange(0, COLUMNS)\n'
                if environment.getattr(l_1_k, 'uses_j'):
                    pass
                    yield '        j = (first + column)'
                    yield str(environment.getattr(l_1_k, 'widened'))
                    yield '[None, :]\n'
                yield str(context.call((undefined(name='load_columns') if l_0_load_columns is missing else l_0_load_columns), environment.getattr(l_2_side, 'loads'), '        ', _loop_vars=_loop_vars))
            else:
                pass
                yield '        row = start + tl.arange(0, ROWS)\n'
                if environment.getattr(l_1_k, 'uses_i'):
                    pass
                    yield '        i = (first + offset + row)'
                    yield str(environment.getattr(l_1_k, 'widened'))
                    yield '[:, None]\n'
                yield str(context.call((undefined(name='load_rows') if l_0_load_rows is missing else l_0_load_rows), environment.getattr(l_2_side, 'loads'), '        ', _loop_vars=_loop_vars))
                for l_3_t in environment.getattr(environment.getattr(l_2_side, 'loads'), 'gradients'):
                    _loop_vars = {}
                    pass
                    yield '        '
                    yield str(environment.getattr(l_3_t, 'local'))
                    yield ' = '
                    yield str((context.call((undefined(name='tile') if l_0_tile is missing else l_0_tile), l_3_t, 'row', 'row_count', _loop_vars=_loop_vars) if environment.getattr(l_3_t, 'width') else str_join((context.call((undefined(name='vector') if l_0_vector is missing else l_0_vector), l_3_t, 'row', 'row_count', _loop_vars=_loop_vars), '.to(ACC)[:, None]', ))))
                    yield '\n'
                l_3_t = missing
            yield str(context.call((undefined(name='pair') if l_0_pair is missing else l_0_pair), environment.getattr(l_2_side, 'loads'), '        ', _loop_vars=_loop_vars))
            yield '        inside = (row < row_count)[:, None] & (column < column_count)[None, :]'
            yield str((' & exists' if environment.getattr(l_2_side, 'table') else ''))
            yield '\n'
            for l_3_line in environment.getattr(l_2_side, 'mask'):
                _loop_vars = {}
                pass
                yield '        '
                yield str(l_3_line)
                yield '\n'
            l_3_line = missing
            if environment.getattr(l_1_k, 'score'):
                pass
                for l_3_line in environment.getattr(l_2_side, 'score'):
                    _loop_vars = {}
                    pass
                    yield '        '
                    yield str(l_3_line)
                    yield '\n'
                l_3_line = missing
                yield '        p = tl.exp2(tl.where(inside, (score - log_sum_exp) * LOG2E, float("-inf")))\n'
            for l_3_s in environment.getattr(environment.getattr(l_2_side, 'loads'), 'sums'):
                _loop_vars = {}
                pass
                yield '        '
                yield str(environment.getattr(l_3_s, 'gradient'))
                yield ' = tl.dot('
                yield str(environment.getattr(environment.getattr(l_3_s, 'upstream'), 'local'))
                yield ', tl.trans('
                yield str(environment.getattr(environment.getattr(l_3_s, 'key'), 'local'))
                yield '), input_precision=PRECISION, out_dtype=ACC)\n'
            l_3_s = missing
            for l_3_line in environment.getattr(l_2_side, 'lines'):
                _loop_vars = {}
                pass
                yield '        '
                yield str(l_3_line)
                yield '\n'
            l_3_line = missing
            for l_3_line in environment.getattr(l_2_side, 'updates'):
                _loop_vars = {}
                pass
                yield '        '
                yield str(l_3_line)
                yield '\n'
            l_3_line = missing
            for l_3_line in environment.getattr(l_2_side, 'stores'):
                _loop_vars = {}
                pass
                yield '    '
                yield str(l_3_line)
                yield '\n'
            l_3_line = missing
        l_2_side = missing
        yield '\n\n'
    l_1_k = missing
    l_1_loop = missing
    for l_1_k, l_1_loop in LoopContext((undefined(name='kernels') if l_0_kernels is missing else l_0_kernels), undefined):
        l_1_called = missing
        _loop_vars = {}
        pass
        yield '@torch.library.custom_op(f"{_NAMESPACE}::'
        yield str(environment.getattr(l_1_k, 'name'))
        yield '", mutates_args=())\ndef '
        yield str(environment.getattr(l_1_k, 'operator'))
        yield '('
        yield str(environment.getattr(l_1_k, 'signature'))
        yield ') -> '
        yield str(environment.getattr(l_1_k, 'returns'))
        yield ':\n    """Launches '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_forward."""\n    batch, heads = '
        yield str(environment.getattr(l_1_k, 'like'))
        yield '.shape[:2]\n'
        for l_2_line in environment.getattr(l_1_k, 'made'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        yield '    _launch(\n        '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_forward,\n        "forward",\n        rows,\n        batch * heads,\n        '
        yield str(environment.getattr(l_1_k, 'like'))
        yield ',\n        '
        yield str(environment.getattr(l_1_k, 'padded'))
        yield ',\n        ('
        yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'tensors'), ', '))
        yield ', '
        yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'results'), ', '))
        yield ', '
        yield str(environment.getattr(l_1_k, 'stride_arguments'))
        yield ', heads, rows, columns, offset, first),\n        '
        yield str(environment.getattr(l_1_k, 'constants'))
        yield ',\n    )\n    return '
        yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'results'), ', '))
        yield '\n\n\n@'
        yield str(environment.getattr(l_1_k, 'operator'))
        yield '.register_fake\ndef _('
        yield str(environment.getattr(l_1_k, 'signature'))
        yield ') -> '
        yield str(environment.getattr(l_1_k, 'returns'))
        yield ':\n    batch, heads = '
        yield str(environment.getattr(l_1_k, 'like'))
        yield '.shape[:2]\n'
        for l_2_line in environment.getattr(l_1_k, 'made'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        yield '    return '
        yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'results'), ', '))
        yield '\n\n\n'
        if environment.getattr(l_1_k, 'gradient_results'):
            pass
            yield '@torch.library.custom_op(f"{_NAMESPACE}::'
            yield str(environment.getattr(l_1_k, 'name'))
            yield '_gradient", mutates_args=())\ndef '
            yield str(environment.getattr(l_1_k, 'operator'))
            yield '_gradient('
            yield str(environment.getattr(l_1_k, 'gradient_signature'))
            yield ') -> '
            yield str(environment.getattr(l_1_k, 'gradient_returns'))
            yield ':\n    """Launches '
            yield str(t_1(context.eval_ctx, t_4(context, environment.getattr(l_1_k, 'sides'), attribute='called'), ', '))
            yield '."""\n    batch, heads = '
            yield str(environment.getattr(l_1_k, 'like'))
            yield '.shape[:2]\n'
            for l_2_line in environment.getattr(l_1_k, 'gradient_made'):
                _loop_vars = {}
                pass
                yield '    '
                yield str(l_2_line)
                yield '\n'
            l_2_line = missing
            for l_2_side in environment.getattr(l_1_k, 'sides'):
                _loop_vars = {}
                pass
                yield '    _launch(\n        '
                yield str(environment.getattr(l_2_side, 'called'))
                yield ',\n        "'
                yield str(('table' if environment.getattr(l_2_side, 'table') else environment.getattr(l_2_side, 'name')))
                yield '",\n        '
                yield str(environment.getattr(l_2_side, 'length'))
                yield ',\n        batch * heads,\n        '
                yield str(environment.getattr(l_1_k, 'like'))
                yield ',\n        '
                yield str(environment.getattr(l_1_k, 'padded'))
                yield ',\n        ('
                yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'tensors'), ', '))
                yield ', '
                yield str(t_1(context.eval_ctx, (environment.getattr(l_1_k, 'gradient_tensors') + environment.getattr(l_2_side, 'made')), ', '))
                yield ', '
                yield str(environment.getattr(l_1_k, 'gradient_stride_arguments'))
                yield ', heads, rows, columns, offset, first),\n        '
                yield str(environment.getattr(l_1_k, 'constants'))
                yield ',\n    )\n'
            l_2_side = missing
            for l_2_line in environment.getattr(l_1_k, 'gradient_after'):
                _loop_vars = {}
                pass
                yield '    '
                yield str(l_2_line)
                yield '\n'
            l_2_line = missing
            yield '    return '
            yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'gradient_results'), ', '))
            yield '\n\n\n@'
            yield str(environment.getattr(l_1_k, 'operator'))
            yield '_gradient.register_fake\ndef _('
            yield str(environment.getattr(l_1_k, 'gradient_signature'))
            yield ') -> '
            yield str(environment.getattr(l_1_k, 'gradient_returns'))
            yield ':\n    return '
            yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'gradient_fake'), ', '))
            yield '\n\n\n'
        yield str(context.call((undefined(name='differentiable') if l_0_differentiable is missing else l_0_differentiable), l_1_k, (', *output' if (t_2(environment.getattr(l_1_k, 'results')) > 1) else ', output'), _loop_vars=_loop_vars))
        yield '\n\ndef '
        yield str(environment.getattr(l_1_k, 'public'))
        yield '('
        yield str(environment.getattr(l_1_k, 'public_signature'))
        yield ') -> '
        yield str(environment.getattr(l_1_k, 'returns'))
        yield ':\n    """'
        yield str(environment.getattr(l_1_k, 'public_summary'))
        yield '\n\n'
        for l_2_line in environment.getattr(l_1_k, 'about'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        yield '    """\n    lead = torch.broadcast_shapes('
        yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'leads'), ', '))
        yield ')\n'
        for l_2_line in environment.getattr(l_1_k, 'flattened'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        l_1_called = (str_join((environment.getattr(l_1_k, 'function'), '.apply', )) if environment.getattr(l_1_k, 'gradient_results') else environment.getattr(l_1_k, 'operator'))
        _loop_vars['called'] = l_1_called
        yield '    '
        yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'results'), ', '))
        yield ' = '
        yield str((undefined(name='called') if l_1_called is missing else l_1_called))
        yield '('
        yield str(environment.getattr(l_1_k, 'call'))
        yield ')\n    return '
        l_2_loop = missing
        for l_2_each, l_2_loop in LoopContext(environment.getattr(l_1_k, 'results'), undefined):
            _loop_vars = {}
            pass
            yield str(l_2_each)
            yield '.reshape(*lead, *'
            yield str(l_2_each)
            yield '.shape[2:])'
            yield str((', ' if (not environment.getattr(l_2_loop, 'last')) else cond_expr_undefined("the inline if-expression on line 351 in 'kernels.py.jinja' evaluated to false and no else section was defined.")))
        l_2_loop = l_2_each = missing
        yield '\n\n\n'
    l_1_loop = l_1_k = l_1_called = missing

blocks = {}
debug_info = '2=43&3=49&4=60&5=63&6=68&13=75&14=80&16=84&17=89&18=91&20=95&28=106&29=117&30=121&33=127&34=132&37=137&38=142&41=153&42=164&44=182&45=193&47=205&48=216&49=221&50=226&53=237&54=244&55=248&56=254&57=257&60=266&61=270&64=281&65=288&66=292&67=298&68=301&71=310&72=314&75=325&76=332&77=336&79=345&80=349&81=354&86=373&87=377&91=381&92=383&94=385&95=387&97=389&98=392&100=394&101=395&102=396&103=397&104=399&105=403&107=408&108=411&110=413&111=417&112=419&120=425&121=429&123=434&124=438&126=442&128=446&129=449&131=451&132=452&134=454&135=458&137=461&138=463&139=467&149=471&150=475&152=478&153=482&154=484&155=486&156=489&158=502&161=509&165=512&166=516&167=518&168=521&170=534&173=539&174=542&177=544&181=548&182=550&184=552&185=554&186=556&188=558&189=560&191=562&192=565&195=569&197=571&198=574&201=576&202=577&203=578&204=580&205=582&206=583&207=587&210=594&212=595&213=599&215=604&216=608&218=612&219=618&221=621&222=623&225=625&226=627&227=628&228=629&229=633&231=638&233=641&234=644&236=646&239=650&240=653&242=655&243=656&244=660&247=665&248=667&249=669&250=673&252=676&253=678&254=682&258=686&259=690&261=697&262=701&264=704&265=708&267=711&268=715&274=722&275=727&276=729&277=735&278=737&279=739&280=743&283=747&287=749&288=751&289=753&290=759&292=761&295=763&296=765&297=769&298=771&299=775&301=779&304=781&305=784&306=786&307=792&308=794&309=796&310=800&312=803&314=807&315=809&316=811&318=813&319=815&320=817&321=823&324=826&325=830&327=834&330=836&331=838&332=842&336=844&338=846&339=852&341=854&342=858&345=862&346=864&347=868&349=871&350=874&351=881'